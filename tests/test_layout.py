"""The layout of the sources: the table in CONTRIBUTING.md, the import rules, and tools/code_figures.py."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "budgetron"
ROW = re.compile(r"^\| (\d+) \| `([^`]+)` \|", re.M)
# One line of Cython that imports modules: `from A cimport b`, `import A, B` or `cimport A`.
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+(\S+)\s+c?import\b|c?import\s+(.+))", re.M)

# ---------------------------------------------------------------------- the table of packages


def contributing_table():
    """Return the (layer, name) rows of the table in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## How the code is laid out")[2].partition("\n## ")[0]
    return [(int(layer), name) for layer, name in ROW.findall(section)]


def top_level_names(source):
    packages = [path.parent.name for path in source.glob("*/__init__.py")]
    modules = [path.stem for path in source.glob("*.py") if path.stem != "__init__"]
    return sorted(packages + modules)


def test_contributing_lists_every_package_once():
    names = [name for _, name in contributing_table()]
    assert sorted(names) == top_level_names(SOURCE)


def test_contributing_gives_the_layers_of_import_linter():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers"]
    declared = {name.strip(): number for number, line in enumerate(layers, 1) for name in line.split("|")}
    assert {name: layer for layer, name in contributing_table()} == declared


# ---------------------------------------------------------------------- the import rules


def lint_imports(project):
    """Run lint-imports with the project's settings on a copy of the package in the folder `project`."""
    command = "from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--config", "pyproject.toml"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture
def project(tmp_path):
    """Return a folder with the project's settings and a copy of the Python sources."""
    for path in SOURCE.rglob("*.py"):
        copy = tmp_path / "budgetron" / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def append(path, text):
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_the_sources_obey_the_import_rules(project):
    run = lint_imports(project)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 kept, 0 broken" in run.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "\nfrom budgetron.kernelized import learners\n",
        "\ndef lazy():\n    from budgetron.kernelized import learners\n",
        "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from budgetron import linear\n",
    ],
    ids=["at the top", "in a function", "for type checking"],
)
def test_an_upward_import_fails(project, statement):
    append(project / "budgetron" / "_util" / "units.py", statement)
    run = lint_imports(project)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Dependencies point downwards BROKEN" in run.stdout
    assert "budgetron._util.units -> budgetron." in run.stdout


def test_an_import_within_a_layer_fails(project):
    append(project / "budgetron" / "games.py", "\nfrom budgetron import bounds\n")
    run = lint_imports(project)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "budgetron.games -> budgetron.bounds" in run.stdout


def test_a_cycle_in_a_function_fails(project):
    # Both modules are in one package, so that the layers allow each of the imports.
    append(project / "budgetron" / "_util" / "units.py", "\ndef lazy():\n    import budgetron._util.atomic\n")
    append(project / "budgetron" / "_util" / "atomic.py", "\ndef lazy():\n    import budgetron._util.units\n")
    run = lint_imports(project)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "Dependencies point downwards KEPT" in run.stdout
    assert "No package or module imports itself in a cycle BROKEN" in run.stdout


def test_a_package_without_a_layer_fails(project):
    (project / "budgetron" / "unlisted").mkdir()
    (project / "budgetron" / "unlisted" / "__init__.py").write_text("")
    run = lint_imports(project)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "unlisted" in run.stdout


def foreign_imports(text):
    """Return the modules of Budgetron outside `_core` and `_util` that Cython source text imports."""
    found = []
    for module, several in CYTHON_IMPORT.findall(text):
        names = [module] if module else [name.split()[0] for name in several.split(",") if name.strip()]
        found += [name.removeprefix("cython.cimports.") for name in names]
    return [
        name
        for name in found
        if name.split(".")[0] == "budgetron" and name.split(".")[1:2] not in (["_core"], ["_util"])
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from budgetron._core.rows cimport Rows\nimport budgetron._core.pages\n", []),
        ("cimport budgetron.kernels\n", ["budgetron.kernels"]),
        ("import numpy, budgetron._util.units\n", []),
        ("import numpy, budgetron.streams\n", ["budgetron.streams"]),
        ("def f():\n    from budgetron import linear\n", ["budgetron"]),
        ("from cython.cimports.budgetron.linear import Rule\n", ["budgetron.linear"]),
        ("from budgetron._base.trace import Trace\n", ["budgetron._base.trace"]),
    ],
)
def test_foreign_imports_are_found(text, expected):
    assert foreign_imports(text) == expected


def test_the_core_imports_only_itself_and_the_tools():
    # import-linter reads Python files only.
    files = [path for path in (SOURCE / "_core").iterdir() if path.suffix in (".pyx", ".pxd")]
    assert len(files) > 20
    found = {path.name: foreign_imports(path.read_text(encoding="utf-8")) for path in files}
    assert {name: modules for name, modules in found.items() if modules} == {}


# ---------------------------------------------------------------------- tools/code_figures.py


@pytest.fixture
def package(tmp_path):
    """Return a small package with one place of each kind that the figures count."""
    source = tmp_path / "package"
    (source / "one").mkdir(parents=True)
    (source / "two").mkdir()
    body, body_of_method = "    x = 1\n", "        x = 1\n"
    files = {
        "__init__.py": "",
        "_private.py": "",
        "one/__init__.py": "_secret = 1\n",
        "one/long_file.py": "x = 1\n" * 451,
        "one/short_file.py": "x = 1\n" * 450,
        "one/long_function.py": "def long():\n" + body * 60,
        "one/short_function.py": "def short():\n" + body * 59,
        "one/long_class.py": "class Long:\n" + body * 300,
        "one/short_class.py": "class Short:\n" + body * 299,
        "one/names.py": "from typing import Any\nx: Any = 1\ny = 'Any'  # Any\n",
        "one/own.py": "from budgetron.one import _secret\nclass A:\n    _hidden = 1\n",
        "two/__init__.py": "from budgetron.one import _secret\n",
        "two/state.py": "def restore(model, state):\n    model.__setstate__(state)\n\n\n"
        "class A:\n    def __setstate__(self, state):\n        self.part.__setstate__(state)\n",
        "two/attributes.py": "def read(a):\n    return a._hidden, a.shown\n",
        "two/compiled.pyx": "cdef class Rule:\n    cdef int update(self) nogil:\n"
        + body_of_method * 60
        + "x = 1\n",
    }
    for name, text in files.items():
        (source / name).write_text(text)
    return source


FIGURES = """\
private modules                  1
    _private.py
long files                       1
    one/long_file.py (451)
long functions                   2
    one/long_function.py:1 long (61)
    two/compiled.pyx:2 update (61)
long classes                     1
    one/long_class.py:1 Long (301)
uses of any                      1
    one/names.py:2
private names across packages    2
    two/__init__.py:1 import _secret
    two/attributes.py:2 ._hidden
setstate as setter               1
    two/state.py:2
"""


def code_figures(*arguments):
    command = [sys.executable, str(ROOT / "tools" / "code_figures.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_code_figures(package):
    assert code_figures("--list", str(package)) == FIGURES
    counts = [line for line in FIGURES.splitlines() if not line.startswith(" ")]
    assert code_figures(str(package)).splitlines() == counts


def test_code_figures_of_this_package():
    printed = code_figures()
    assert re.search(r"^private modules +0$", printed, re.M), "a private module at the top level"
