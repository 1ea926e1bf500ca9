"""The files about packaging agree with each other, and the smoke tests of the wheels pass."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import budgetron

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPOSITORY = PROJECT["project"]["urls"]["Source"]


def test_the_version_is_the_same_everywhere():
    version = re.search(r"^  version: '(.+)',$", (ROOT / "meson.build").read_text(), re.M)[1]
    assert budgetron.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'\n  version: "{version}"\n' in (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()


def test_the_address_of_the_repository_is_the_same_everywhere():
    for address in PROJECT["project"]["urls"].values():
        assert address.startswith(REPOSITORY)
    assert f"\nrepository-code: {REPOSITORY}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n  repository: {REPOSITORY}\n" in (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()


def test_the_conda_recipe_has_the_dependencies_of_the_project():
    recipe = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    run = recipe.split("  run:\n")[1].split("\ntests:")[0]
    lines = [line.strip(" -").replace(" ", "") for line in run.splitlines()]
    listed = {line.replace("matplotlib-base", "matplotlib") for line in lines}
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["cli"]]
    # scipy requires numpy; conda-forge adds the version that the build used
    assert {name for name in wanted if not name.startswith("numpy")} == listed - {"", "python"}


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(workflow):
    for used in re.findall(r"uses: (\S+.*)", workflow.read_text()):
        if not used.startswith("./"):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


def test_wheels_are_built_for_every_python_of_the_classifiers():
    wanted = {
        f"cp{classifier[-4:].replace('.', '')}-*"
        for classifier in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", classifier)
    }
    built = set(PROJECT["tool"]["cibuildwheel"]["build"].split())
    assert built - {"cp314t-*"} == wanted


def test_the_smoke_tests(tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / "tests" / "smoke.py"],
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
