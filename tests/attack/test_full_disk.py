"""Files that cannot be written to the end: a clear error, and everything is as before.

The limit of the size of a file stands for a full disk: a write fails in the middle of a file.
"""

import os
from contextlib import contextmanager

import kill
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import export, files, streams
from budgetron.cli import app

resource = pytest.importorskip("resource", reason="needs limits of the size of files")

TOO_LARGE = os.strerror(27)


@contextmanager
def largest_file(n_bytes):
    """Let writes beyond this size fail; Python ignores the signal that the system sends too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.csv"
    kill.write_rows(path, 2000)
    return path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("n_bytes", [0, 1, 3000, 20_000])
def test_save_leaves_file_and_model_unchanged(n_bytes, tmp_path):
    X, y = streams.two_gaussians(3000, random_state=0)
    model = budgetron.KernelPerceptron(gamma=1.0).fit(X, y)
    budgetron.save(model, tmp_path / "m")
    budgetron.save(budgetron.Stoptron(), tmp_path / "old")
    assert (tmp_path / "m").stat().st_size > 20_000
    before = contents(tmp_path)
    for path in (tmp_path / "old", tmp_path / "new"):
        with pytest.raises(OSError, match=TOO_LARGE) as caught, largest_file(n_bytes):
            budgetron.save(model, path)
        assert caught.value.filename == str(path)
        with pytest.raises(OSError, match=TOO_LARGE), largest_file(n_bytes):
            export.c(model, path, "model")
    assert contents(tmp_path) == before
    budgetron.save(model, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == before[(tmp_path / "m").relative_to(tmp_path)]


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_files_of_a_run(option, table, tmp_path):
    (tmp_path / "file").write_text("before")
    with largest_file(10_000):
        done = invoke("run", table, "-t", "label", "-l", "perceptron", option, tmp_path / "file")
    assert done.exit_code == 2
    assert done.stderr.strip().endswith(f"budgetron: {tmp_path / 'file'}: {TOO_LARGE}")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "before")]


def test_predictions(table, tmp_path):
    done = invoke("run", table, "-t", "label", "-l", "arow", "--save", tmp_path / "m")
    assert done.exit_code == 0, done.output
    (tmp_path / "p.csv").write_text("before")
    before = contents(tmp_path)
    with largest_file(5000):
        done = invoke("predict", tmp_path / "m", table, "--margins", "-o", tmp_path / "p.csv")
    assert done.exit_code == 2
    assert done.stderr.strip() == f"budgetron: {tmp_path / 'p.csv'}: {TOO_LARGE}"
    assert contents(tmp_path) == before


def test_a_checkpoint(table, tmp_path):
    command = ["run", table, "-t", "label", "-l", "perceptron", "--every", 300, "--checkpoint"]
    with largest_file(60_000):
        done = invoke(*command, tmp_path / "c")
    assert done.exit_code == 2
    file = tmp_path / "c" / "checkpoint.budgetron"
    rows = files.load_extras(file)["checkpoint"]["rows"]
    assert 0 < rows < 2000
    assert done.stderr.strip() == (
        f"budgetron: {file}: {TOO_LARGE}; the checkpoint after {rows:,} rows remains; "
        "fix this, then run the command again"
    )
    assert list(contents(tmp_path)) == [file.relative_to(tmp_path)]
    for folder in ("c", "never stopped"):
        assert invoke(*command, tmp_path / folder, "--save", tmp_path / f"m {folder}").exit_code == 0
    assert (tmp_path / "m c").read_bytes() == (tmp_path / "m never stopped").read_bytes()
