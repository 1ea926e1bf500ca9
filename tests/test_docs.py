"""Everything shown to readers runs: docstring examples, the README, and the walk in CONTRIBUTING.md."""

import contextlib
import doctest
import importlib
import inspect
import io
import json
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import budgetron

ROOT = Path(__file__).parent.parent
MODULES = [
    module.name
    for module in pkgutil.walk_packages(budgetron.__path__, "budgetron.")
    if not module.name.startswith("budgetron._core")
]


@pytest.mark.parametrize("name", ["budgetron", *MODULES])
def test_docstring_examples(name):
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_every_learner_shows_an_example():
    converters = [budgetron.batch.AveragedClassifier, budgetron.batch.PenalizedRiskClassifier]
    for learner in budgetron.learners() + budgetron.linear.learners() + converters:
        doc = inspect.cleandoc(learner.__doc__)  # Python strips the indent from 3.13 on, Cython does not
        for section in ("Parameters", "Examples"):
            assert f"{section}\n---" in doc, f"{learner.__name__} lacks {section}"
        for parameter in learner._get_param_names():
            assert re.search(rf"^ *[\w, ]*\b{parameter}\b[\w, ]*( :|$)", doc, re.M), (
                f"{learner.__name__} does not explain {parameter}"
            )


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), re.S)


def test_the_page_of_the_theorems():
    page = (ROOT / "docs" / "theorems.md").read_text()
    for entry in budgetron.bounds.THEOREMS.values():
        row = (
            f"| {entry.source} | `{entry.name}` | {entry.quantity} | {entry.learner} | {entry.assumptions} |"
        )
        assert row in page, "run examples/guarantees.py --theorems"


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/budgets-and-kernels.md",
        "docs/command-line.md",
        "docs/deployment.md",
        "docs/guarantees.md",
        "docs/index.md",
        "docs/recipes.md",
        "docs/threads.md",
    ],
)
def test_examples_of_the_pages(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the blocks of a page may hand each other files
    codes, outputs = blocks(path, "python"), blocks(path, "text")
    assert len(codes) >= 1
    for code, output in zip(codes, outputs, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, path, "exec"), {})
        assert printed.getvalue() == output


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_the_gallery(example, tmp_path):
    picture = tmp_path / "picture.png"
    run = subprocess.run(
        [sys.executable, example, "--output", picture], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def install(project, build, site):
    """Install what the build says it would, compiling what this package has not compiled yet.

    As with `make test`, which keeps its build folder: the rest is compiled already, from the same sources.
    """
    subprocess.run(["meson", "setup", build, project], check=True, capture_output=True)
    plan = json.loads((build / "meson-info" / "intro-install_plan.json").read_text())
    wanted = {
        Path(source): Path(entry["destination"]).relative_to("{py_platlib}")
        for part in plan.values()
        for source, entry in part.items()
    }
    there = Path(budgetron.__file__).parent.parent
    compiled = {Path(source): wanted[Path(source)] for source in plan["targets"]}
    lacking = [source for source, place in compiled.items() if not (there / place).exists()]
    assert "_smallest" in {source.name.partition(".")[0] for source in lacking}
    subprocess.run(["ninja", "-C", build, *(source.relative_to(build) for source in lacking)], check=True)
    for source, place in wanted.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(there / place if source in compiled and source not in lacking else source, site / place)
    for said in there.glob("budgetron-*.dist-info"):  # where its version stands
        shutil.copytree(said, site / said.name)


def test_add_a_learner_in_one_file(tmp_path):
    # The walk of CONTRIBUTING.md, taken: one file, one line, build, install, use.
    for tool in ("meson", "ninja", "cython"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the path, and the walk builds")
    learner, register = blocks("CONTRIBUTING.md", "python")
    project = tmp_path / "project"
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(".venv", ".git", "build", ".*_cache"))
    package = project / "src" / "budgetron" / "kernelized"
    (package / "_smallest.py").write_text(learner)
    with (package / "__init__.py").open("a") as file:
        file.write(register)
    site = tmp_path / "site"
    install(project, tmp_path / "build", site)
    # Conformance comes with the registration.
    tests = [project / "tests" / name for name in ("test_sklearn.py", "test_errors.py", "test_docs.py")]
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-k",
            "SmallestPerceptron or _smallest",
            *tests,
        ],
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"},
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 50, run.stdout
