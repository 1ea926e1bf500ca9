"""Model files that are no regular files, that are huge, or that other processes replace."""

import json
import os
import struct
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fuzz_files import unpack
from memory_limit import limits_memory
from numpy.lib import format as npy
from typer.testing import CliRunner

import budgetron
from budgetron import streams
from budgetron._persistence import archive
from budgetron.cli import app

HERE = Path(__file__).parent

# Reads each path in three ways; with little memory, so that an endless or huge file fails early.
READ_ALL = """
import resource, sys
from typer.testing import CliRunner
import budgetron
from budgetron import files
from budgetron.cli import app

resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
for path in sys.argv[1:]:
    for load in (budgetron.load, files.load_extras):
        try:
            print(load(path))
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
    done = CliRunner().invoke(app, ["predict", path, "data:digits"])
    print(done.exit_code, " ".join(done.stderr.split()), flush=True)
"""


def read_all(*paths):
    """Return the three outcomes for each path."""
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *map(str, paths)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return {path: lines[3 * i : 3 * i + 3] for i, path in enumerate(paths)}


@limits_memory
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs devices and pipes by name")
def test_devices_and_pipes_are_refused_at_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    for path, outcomes in read_all(pipe, link, Path("/dev/zero"), Path("/dev/null")).items():
        message = f"{path}: not a regular file; give the name of a model file"
        assert outcomes == [f"ModelFileError: {message}"] * 2 + [f"2 budgetron: {message}"]


def file_with_huge_contents(path):
    """Write a file whose table of contents would be 1 TB long; it takes almost no space on disk."""
    length = 1 << 40
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, length, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, length, 1)
    rest = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    with path.open("wb") as file:
        file.seek(length)
        file.write(end + locator + rest)


def file_with_huge_array(path, model, shape):
    """Write a model whose first array is said to be 1 TB long; it takes almost no space on disk."""
    budgetron.save(model, path)
    head, arrays = unpack(path.read_bytes())
    member = zipfile.ZipInfo("arrays/0.npy")
    member.CRC = member.header_offset = 0
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        file.write(member.FileHeader(zip64=True))
        start = file.tell()
        npy.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        member.file_size = member.compress_size = file.tell() - start + (1 << 40)
        file.seek(start + member.file_size)
        archive.filelist.append(member)
        archive.NameToInfo[member.filename] = member
        archive.start_dir = file.tell()
        for i, data in enumerate(arrays[1:], 1):
            archive.writestr(f"arrays/{i}.npy", data)
        archive.writestr("model.json", json.dumps(head))


@limits_memory
@pytest.mark.skipif(os.name != "posix", reason="needs files with holes, and limits of memory")
def test_huge_files_are_refused_without_reading_them(tmp_path):
    zeros, contents, array, misfit = (tmp_path / name for name in ("zeros", "contents", "array", "misfit"))
    with zeros.open("wb") as file:
        file.truncate(1 << 40)
    file_with_huge_contents(contents)
    model = budgetron.Forgetron(budget=5, gamma=0.5).fit(*streams.two_gaussians(30, random_state=0))
    file_with_huge_array(array, model, (1 << 37,))
    file_with_huge_array(misfit, model, (1 << 36,))
    reasons = {
        zeros: "not a model file of budgetron.save, or cut short",
        contents: "the table of contents is too long",
        array: "array 0 does not fit in memory",
        misfit: "array 0 of shape (68719476736,) does not fit in 1099511627776 bytes",
    }
    for path, (load, load_extras, command) in read_all(*reasons).items():
        assert load.startswith(f"ModelFileError: {path}: ")
        assert reasons[path] in load
        assert command.startswith(f"2 budgetron: {path}: ")
        assert reasons[path] in command
        if path in (array, misfit):
            assert load_extras == "None"  # the extras have no arrays
        else:
            assert reasons[path] in load_extras


# ---------------------------------------------------------------------- files that are replaced while in use


def test_a_prediction_uses_model_and_encoder_of_the_same_file(tmp_path, monkeypatch):
    """Another process may replace the model file at any moment."""
    rows = "size,colour,good\n1,red,yes\n3,blue,no\n2,red,yes\n5,blue,no\n"
    (tmp_path / "rows.csv").write_text(rows)
    models = []
    for options in (["--no-scale"], ["--ignore", "colour"]):
        command = ["run", str(tmp_path / "rows.csv"), "-t", "good", "-l", "arow", *options]
        done = CliRunner().invoke(app, [*command, "--save", str(tmp_path / "m")])
        assert done.exit_code == 0, done.output
        models.append((tmp_path / "m").read_bytes())
    predict = ["predict", str(tmp_path / "m"), str(tmp_path / "rows.csv"), "--margins"]
    (tmp_path / "m").write_bytes(models[0])
    expected = CliRunner().invoke(app, predict).stdout
    original = archive._read

    def read_and_replace(*arguments):
        result = original(*arguments)
        (tmp_path / "m").write_bytes(models[1])
        return result

    monkeypatch.setattr(archive, "_read", read_and_replace)
    done = CliRunner().invoke(app, predict)
    assert done.exit_code == 0, done.output
    assert done.stdout == expected
    assert CliRunner().invoke(app, predict).stdout != expected


SAVE_OFTEN = """
import sys
import budgetron
from test_files_attack import model_of

model = model_of(int(sys.argv[1]))
for _ in range(20):
    budgetron.save(model, sys.argv[2], extras={"budget": model.budget})
"""


def model_of(budget):
    X, y = streams.two_gaussians(300, random_state=0)
    return budgetron.Forgetron(budget=budget, gamma=1.0).fit(X, y)


def test_processes_and_threads_save_and_load_one_path(tmp_path):
    path, models, expected = tmp_path / "m", {budget: model_of(budget) for budget in (10, 50, 90)}, []
    for budget, model in models.items():
        budgetron.save(model, path, extras={"budget": budget})
        expected.append(path.read_bytes())
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [HERE, HERE.parent, *sys.path]))}
    savers = [
        subprocess.Popen([sys.executable, "-c", SAVE_OFTEN, str(budget), path], env=environment)
        for budget in (10, 50)
    ]
    loads = []

    def save_often():
        while not done():
            budgetron.save(models[90], path, extras={"budget": 90})

    def load_often():
        while not done():
            loads.append((archive.load_with_extras(path), path.read_bytes()))

    def done():
        return all(saver.poll() is not None for saver in savers)

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(save_often), pool.submit(load_often), pool.submit(load_often)]:
            future.result(timeout=100)
    assert [saver.returncode for saver in savers] == [0, 0]
    assert [found.name for found in tmp_path.iterdir()] == ["m"]
    assert loads
    for (model, extras), data in loads:
        assert extras == {"budget": model.budget}
        assert model.support_vectors_.tobytes() == models[model.budget].support_vectors_.tobytes()
        assert data in expected
