"""Run everything that readers see: docstring examples, the pages, and the steps of CONTRIBUTING.md."""

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
    if name.startswith("budgetron.spark"):
        pytest.importorskip("pyspark", reason="PySpark is not installed")
    failures, _ = doctest.testmod(importlib.import_module(name))
    assert failures == 0


def test_every_learner_documents_its_parameters_and_an_example():
    wrappers = [budgetron.batch.AveragedClassifier, budgetron.batch.PenalizedRiskClassifier]
    regressors = [*budgetron.regressors(), *budgetron.linear.regressors(), budgetron.BudgetRegressor]
    others = [*wrappers, *regressors, *budgetron.detectors()]
    for learner in [*budgetron.learners(), *budgetron.linear.learners(), *others]:
        doc = inspect.cleandoc(learner.__doc__)  # Cython keeps the indentation, Python from 3.13 on does not
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
        cells = [entry.source, f"`{entry.name}`", entry.quantity, entry.learner, entry.assumptions]
        row = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        assert row in page, "run examples/guarantees.py --theorems"


# The numbered items of the papers, as "first to last"; exercises and figures of chapter 8 are 8.1 and so on.
NUMBERED = {
    "Sutskever": {"algorithm": 2, "theorem": 2, "lemma": 1, "fact": 1},
    "CS269 notes": {"definition": 1, "theorem": 2, "lemma": 2},
    "Projectron": {"algorithm": 2, "theorem": 3, "lemma": 1, "corollary": 1, "table": 3, "figure": 3},
    "Forgetron": {"theorem": 3, "lemma": 9, "corollary": 2, "figure": 7},
    "Mohri et al.": {"theorem": 16, "figure": 12, "exercise": 11},
}


def numbers_in(item, kind):
    """Return the numbers that an item of the table lists after a word, such as "Lemmas 3, 4, 5"."""
    plural = {"lemma": "lemmas?", "corollary": "corollar(?:y|ies)"}.get(kind, f"{kind}s?")
    found = set()
    for text in re.findall(rf"\b{plural} ((?:[0-9.]+(?:, | and | to )?)+)", item, re.I):
        for first, last in re.findall(r"([0-9.]*[0-9])(?: to ([0-9.]*[0-9]))?", text):
            start, stop = (int(number.split(".")[-1]) for number in (first, last or first))
            found |= set(range(start, stop + 1))
    return found


def test_no_numbered_item_of_the_papers_is_missing():
    page = (ROOT / "docs" / "papers.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert numbers_in("Lemmas 3, 4, 5, Figures 1 to 3", "lemma") == {3, 4, 5}
    assert numbers_in("Theorems 8.9 and 8.10", "theorem") == {9, 10}
    for paper, kinds in NUMBERED.items():
        for kind, last in kinds.items():
            found = set().union(*(numbers_in(row[1], kind) for row in rows if row[0] == paper))
            if (paper, kind) == ("Mohri et al.", "theorem"):  # 8.14 is a lemma
                found |= numbers_in("Lemma 8.14", "lemma")
                assert any("Lemma 8.14" in row[1] for row in rows)
            assert found == set(range(1, last + 1)), (paper, kind)


def test_the_page_of_the_papers():
    page = (ROOT / "docs" / "papers.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 108
    assert {len(row) for row in rows} == {4}
    assert {row[0] for row in rows} == {"Sutskever", "CS269 notes", "Projectron", "Forgetron", "Mohri et al."}
    assert len({tuple(row[:2]) for row in rows}) == len(rows)
    named = set()
    for paper, item, place, verdict in rows:
        names = re.findall(r"`([^`]+)`", place)
        assert names, f"{paper}, {item} has no place"
        assert verdict
        for name in names:
            found = budgetron
            for part in name.split("."):
                found = getattr(found, part)
            named.add(name)
        for variant in re.findall(r'`(\w+)` \("([\w-]+)"\)', place):  # a value of the parameter `variant`
            learner = getattr(budgetron, variant[0])
            if variant[0] != "kernels":
                (options,) = learner._parameter_constraints["variant"]
                assert variant[1] in options.options
    # Every theorem of these documents has a row.
    for theorem in budgetron.bounds.THEOREMS.values():
        if theorem.source.startswith(("Sutskever", "CS269", "Projectron", "Forgetron", "Mohri")):
            assert f"bounds.{theorem.name}" in named, theorem.name


def pages_with_examples():
    """Return the pages with blocks of Python; a block `text` follows each of them.

    The examples of docs/spark.md need a Spark session; tests/spark runs them.
    """
    pages = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
    return [path for path in pages if blocks(path, "python") and path != "docs/spark.md"]


@pytest.mark.parametrize("path", pages_with_examples())
def test_examples_of_the_pages(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the blocks of a page may share files
    codes, outputs = blocks(path, "python"), blocks(path, "text")
    names: dict[str, object] = {}  # a block may use what the blocks before it have defined
    for code, output in zip(codes, outputs, strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, path, "exec"), names)
        assert printed.getvalue() == output


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("[!_]*.py")), ids=lambda path: path.stem)
def test_the_gallery(example, tmp_path):
    picture = tmp_path / "picture.png"
    run = subprocess.run(
        [sys.executable, example, "--output", picture], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def install(project, build, site):
    """Install a project in the folder `site`, compiling only the modules that this package does not have.

    The other compiled modules are copied: `make test` keeps its build folder and has built them already, from
    the same sources.
    """
    subprocess.run(["meson", "setup", build, project], check=True, capture_output=True)
    plan = json.loads((build / "meson-info" / "intro-install_plan.json").read_text())
    destinations = {
        Path(source): Path(entry["destination"]).relative_to("{py_platlib}")
        for part in plan.values()
        for source, entry in part.items()
    }
    installed = Path(budgetron.__file__).parent.parent
    compiled = {Path(source): destinations[Path(source)] for source in plan["targets"]}
    missing = [source for source, place in compiled.items() if not (installed / place).exists()]
    assert "_smallest" in {source.name.partition(".")[0] for source in missing}
    subprocess.run(["ninja", "-C", build, *(source.relative_to(build) for source in missing)], check=True)
    for source, place in destinations.items():
        (site / place).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, site / place, dirs_exist_ok=True)
        elif source in compiled and source not in missing:
            shutil.copy(installed / place, site / place)
        else:
            shutil.copy(source, site / place)
    for metadata in installed.glob("budgetron-*.dist-info"):  # contains the version
        shutil.copytree(metadata, site / metadata.name)


def test_add_a_learner_in_one_file(tmp_path):
    # Follow CONTRIBUTING.md: add one file and one line, build, install, and run the tests.
    for tool in ("meson", "ninja", "cython"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on the path; it is needed to build the learner")
    learner, register = blocks("CONTRIBUTING.md", "python")
    project = tmp_path / "project"
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(".venv", ".git", "build", ".*_cache"))
    package = project / "src" / "budgetron" / "kernelized"
    (package / "_smallest.py").write_text(learner)
    with (package / "__init__.py").open("a") as file:
        file.write(register)
    site = tmp_path / "site"
    install(project, tmp_path / "build", site)
    # The conformance tests include every registered learner.
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


def test_measured_numbers_are_those_of_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    generated = importlib.import_module("generated")
    assert generated.out_of_date() == [], "run benchmarks/generated.py"
    used = {
        name
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for _, name, _, _ in generated.MARKED.findall(page.read_text())
    }
    assert used == set(generated.PARTS)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 140
