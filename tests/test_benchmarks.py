"""The benchmarks run, and their page shows the measured results. Times are not checked."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

for library in ("rich", "matplotlib"):
    pytest.importorskip(library, reason=f"the benchmarks print and draw with {library}")

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"
SECTIONS = ("density", "loops", "projection", "play", "others")


def bench(out, *arguments):
    # No data sets are used or downloaded: random rows of a9a's shape replace it.
    environment = {name: value for name, value in os.environ.items() if name != "BUDGETRON_DATA"}
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / "run.py"), *arguments, "--out", str(out)],
        env=environment | {"MPLBACKEND": "agg", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench")
    run = bench(out, *SECTIONS, "--tiny")
    assert run.returncode == 0, run.stdout + run.stderr
    return out, run.stdout


def results(out):
    return {file.stem: json.loads(file.read_text()) for file in (out / "performance").glob("*.json")}


def test_each_section_writes_its_results(measured):
    out, _ = measured
    found = results(out)
    assert set(found) == set(SECTIONS)
    for section in found.values():
        assert section["mode"] == "tiny"
        assert section["machine"]["processor"]
        assert section["machine"]["versions"]["numpy"]
        for table in section["tables"]:
            assert table["rows"]
            assert {len(row) for row in table["rows"]} == {len(table["columns"])}
    shares = [row[0] for row in found["density"]["tables"][0]["rows"]]
    assert shares == [0.02, 0.5]


def test_both_sides_of_a_comparison_make_the_same_mistakes(measured):
    found = results(measured[0])
    for section, pairs in (
        ("loops", [("mistakes", "NumPy mistakes")]),
        ("projection", [("mistakes", "NumPy mistakes"), ("supports", "NumPy supports")]),
    ):
        table = found[section]["tables"][0]
        names = [name for name, _ in table["columns"]]
        for row in table["rows"]:
            for ours, theirs in pairs:
                assert row[names.index(ours)] == row[names.index(theirs)] > 0, row


def test_the_page(measured):
    out, printed = measured
    page = (out / "performance.md").read_text(encoding="utf-8")
    for section in results(out).values():
        assert f"\n## {section['title']}\n" in page
        assert section["title"] in printed
        for table in section["tables"]:
            assert table["caption"] in page
    assert "python benchmarks/run.py --tiny" in page, "the page names its command"
    assert "| processor |" in page
    assert (out / "performance" / "density.png").stat().st_size > 5000
    assert "](performance/density.png)" in page
    # Every row of a table has as many cells as its header, also if a name contains a vertical bar.
    for table in re.findall(r"(?:^\|.*\n)+", page, re.M):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_a_missed_target_is_marked(measured, tmp_path):
    # The page is written from the stored results alone: if a value changes, so does its mark.
    out, _ = measured
    found = results(out)["projection"]
    (tmp_path / "performance").mkdir()
    answers = {
        "| speed of Projectron relative": "yes",
        "| speed of Projectron++ relative": "**no**",
        "| \\|\\|K d": "**not measured**",
    }
    for claim, value in zip(found["claims"], (6.01, 5.99, None), strict=True):
        claim["value"] = value
    (tmp_path / "performance" / "projection.json").write_text(json.dumps(found))
    run = bench(tmp_path, "--page")
    assert run.returncode == 0, run.stdout + run.stderr
    lines = (tmp_path / "performance.md").read_text(encoding="utf-8").splitlines()
    assert "1 of 3 targets are met." in lines
    for start, answer in answers.items():
        (row,) = [line for line in lines if line.startswith(start)]
        assert row.endswith(f"| {answer} |")


def test_resume_skips_finished_sections(measured):
    out, _ = measured
    before = {file: file.stat().st_mtime_ns for file in (out / "performance").glob("*.json")}
    run = bench(out, "density", "play", "--tiny", "--resume")
    assert run.returncode == 0, run.stdout + run.stderr
    assert before == {file: file.stat().st_mtime_ns for file in (out / "performance").glob("*.json")}


def test_an_unknown_section(tmp_path):
    run = bench(tmp_path, "nonsense")
    assert run.returncode == 2
    assert "unknown section: nonsense; choose from limits, " in run.stderr


def test_other_libraries(measured):
    # The page has the rows of a library that is installed, and names one that is not and how to install it.
    out, _ = measured
    found = results(out)
    description = found["others"]["description"]
    rows = [row[0] for row in found["others"]["tables"][0]["rows"]]
    omitted = description.partition("they are not installed:")[2]
    for library, name in (("river", "river KNNClassifier"), ("vowpalwabbit", "Vowpal Wabbit --ksvm")):
        assert (name in rows) == (find_spec(library) is not None)
        assert (library in omitted) == (find_spec(library) is None)
    note = found["play"]["claims"][1]["note"]
    assert note == ("" if find_spec("river") else "river is not installed: pip install --group bench")


def test_the_page_in_the_docs_shows_the_stored_results(tmp_path):
    stored = ROOT / "docs" / "performance"
    (tmp_path / "performance").mkdir()
    for file in stored.glob("*.json"):
        (tmp_path / "performance" / file.name).write_text(file.read_text())
    run = bench(tmp_path, "--page")
    assert run.returncode == 0, run.stdout + run.stderr
    page = (tmp_path / "performance.md").read_text(encoding="utf-8")
    assert page == (ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), (
        "run benchmarks/run.py --page"
    )
