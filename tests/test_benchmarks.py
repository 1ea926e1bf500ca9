"""The benchmarks run, and their page shows the measured results. Times are not checked."""

import json
import math
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
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


# ---------------------------------------------------------------------- quality


on_linux = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc"
)


@pytest.fixture
def quality(monkeypatch):
    """Return the modules quality, quality_learners, quality_page, quality_rivals and quality_streams."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return {
        name: import_module(f"quality_{name}" if name else "quality")
        for name in ("", "learners", "page", "rivals", "streams")
    }


def test_the_page_on_quality_shows_the_stored_results(quality):
    stored = json.loads((ROOT / "docs" / "quality" / "results.json").read_text())
    page = quality["page"].page(stored)
    assert page == (ROOT / "docs" / "quality.md").read_text(encoding="utf-8"), (
        "run benchmarks/quality.py --page"
    )
    assert "chosen on the data sets letter, ijcnn1, a9a, electricity and mnist only." in " ".join(
        page.split()
    )
    for table in re.findall(r"(?:^\|.*\n)+", page, re.M):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def run_of(mistakes, rows=1000, **more):
    return {"mistakes": mistakes, "rows": rows, **more}


def test_the_page_on_quality_with_missing_results(quality, tmp_path):
    forest, ours = "river ARF, 10 trees", "ours, 16MB"
    results = {
        "sea": {
            ours: {"0": run_of(100), "1": run_of(110), "2": run_of(150)},
            forest: {"0": run_of(90), "2": run_of(80)},
            "river SRP, 10 trees": {"0": run_of(7, 70, **{"stopped after": 3.0})},
            "river AMF, 10 trees": {"0": {"rows": 0, "stopped after": 3.0}},
        },
        "electricity": {ours: {"0": run_of(200)}},
        "letter-26": {"previous label": {"1": run_of(900)}},
    }
    lines = quality["page"].page(results).splitlines()
    # The first seed; and the mean only where all seeds are measured.
    assert "| **`BudgetClassifier`**, large memory | **10.00** | **20.00** |" in lines
    assert "| **`BudgetClassifier`**, large memory | **12.00 ± 2.65** |" in lines
    assert [line for line in lines if line.startswith(f"| {forest}")] == [f"| {forest} | 9.00 |  |"]
    assert "| river SRP, 10 trees | 10.00 (70 rows) |  |" in lines
    assert "| river AMF, 10 trees | stopped |  |" in lines
    for some in (results, {}):
        assert quality["page"].page(some)
        quality["page"].plot(some, tmp_path / "errors.png")


@pytest.mark.parametrize("name", ["agrawal", "sea", "hyperplane", "rbf", "led"])
def test_generated_streams(quality, name):
    pytest.importorskip("river", reason="river generates these streams")
    streams = quality["streams"]
    X, y = streams.load(name, 0)
    assert len(X) == len(y) == streams.STREAMS[name].rows
    assert np.isfinite(X).all()
    classes = {"rbf": range(4), "led": range(10)}.get(name, (-1, 1))
    assert np.unique(y).tolist() == list(classes)
    again, labels = streams.load(name, 0)
    assert np.array_equal(X, again)
    assert np.array_equal(y, labels)
    rows, part = len(y), streams.GENERATED[name][0][0]
    assert not np.array_equal(X, streams.load(name, 1)[0]), "another seed gives another stream"
    assert part == rows or not np.array_equal(X[:part], X[part : 2 * part]), "the parts differ"


def test_permutations(quality):
    streams = quality["streams"]
    (X, y), (other, labels) = streams.load("digits-10", 0), streams.load("digits-10", 2)
    assert not np.array_equal(X, other)
    whole, digits = streams.read("digits")
    for seed, rows, found in ((0, X, y), (2, other, labels)):
        order = np.random.default_rng(seed).permutation(len(whole))
        assert np.array_equal(rows, whole[order])
        assert np.array_equal(found, digits[order])


def test_what_is_measured(quality):
    pending, streams = quality[""].pending, quality["streams"]
    ours = ("ours, 16MB",)
    runs = list(pending(["sea", "electricity"], (0, 1), ours, None, {}))
    assert [run for run in runs if run[1] == ours[0]] == [
        ("sea", ours[0], 0),
        ("electricity", ours[0], 0),
        ("sea", ours[0], 1),
    ]
    assert {seed for _, name, seed in runs if name != ours[0]} == {0}, "ablations play the first seed"
    group = {stream for stream, entry in streams.STREAMS.items() if entry.group == "drift"}
    assert {stream for stream, _, _ in pending(["drift"], (0, 1, 2), ("river",), None, {})} == group
    results = {"sea": {"previous label": {"0": run_of(1)}}}
    assert list(pending(["sea"], (0, 1), ("previous",), None, results)) == [("sea", "previous label", 1)]
    assert len(list(pending(["sea"], (0, 1), ("previous",), "prev", results))) == 2


def test_ablations_are_fields_of_the_plan(quality):
    from budgetron.portfolio import Plan

    for ablation in quality["learners"].ABLATIONS.values():
        assert Plan(**ablation.fields) != Plan()


def test_results_are_merged(quality):
    results = {"sea": {"a": {"0": run_of(1)}}}
    others = {"sea": {"a": {"0": run_of(2), "1": run_of(3)}, "b": {"0": run_of(4)}}}
    assert quality[""].merge(results, others) == 2
    assert results == {"sea": {"a": {"0": run_of(1), "1": run_of(3)}, "b": {"0": run_of(4)}}}


@on_linux
def test_a_learner_is_stopped_at_its_limit(quality, monkeypatch):
    # A clock that counts its readings: the learner reads it once before it starts and once for each row.
    clock = iter(range(10**6))
    monkeypatch.setattr(quality["rivals"].time, "process_time", lambda: next(clock))
    name = "scikit-learn SGD, logistic"
    result = quality[""].play_one("digits-10", name, 0, 50, untimed=True)
    whole = quality["rivals"].RIVALS[name](*(part[:50] for part in quality["streams"].load("digits-10")))
    assert result == {"rows": 50, "mistakes": whole["mistakes"], "stopped after": 50}
    assert quality["rivals"].RIVALS[name](np.eye(9), np.arange(9) % 3, 0) == {"mistakes": 0, "rows": 0}


@on_linux
def test_a_run_on_quality(tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, str(BENCHMARKS / "quality.py"), "--results", str(path), *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONIOENCODING": "utf-8"},
            timeout=120,
        )

    path = tmp_path / "results.json"
    chosen = ("--only", "digits-10", "--who", "previous", "ours, 1MB")
    done = run(*chosen, "--seeds", "0", "1", "--untimed")
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())["digits-10"]
    assert {name: list(runs) for name, runs in found.items()} == {
        "ours, 1MB": ["0", "1"],
        "previous label": ["0", "1"],
    }
    assert 0 < found["ours, 1MB"]["0"]["mistakes"] < found["previous label"]["0"]["mistakes"]
    assert "seconds" not in found["ours, 1MB"]["0"]
    done = run(*chosen, "--seeds", "0", "--again", "previous")
    assert done.returncode == 0, done.stderr
    again = json.loads(path.read_text())["digits-10"]
    assert math.isfinite(again["previous label"]["0"].pop("seconds"))
    assert again == found, "only the times are new"


def test_the_benchmark_of_fleets_runs():
    run = subprocess.run(
        [sys.executable, str(BENCHMARKS / "fleet.py"), "--quick"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    for section in ("Size and speed", "One memory for all keys", "A common learner"):
        assert f"## {section}" in run.stdout
    assert "nan" not in run.stdout


def test_the_cost_model_of_clusters(monkeypatch):
    """Costs for which the needs are easy to compute by hand."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    model = import_module("scale_model")
    spark = {"row": 9e-6, "byte": 4e-9, "bucket": 1e-3, "batch": 2.0}
    spark |= {"written bytes per byte": 1.5}
    costs = {"fleet": {"row": 1e-6, "byte": 1e-9, "key bytes": 1000.0}, "spark": spark}
    monkeypatch.setattr(model, "results", lambda: costs)
    need = model.needs(3_600_000, 60)
    assert (need.state, need.buckets, need.rows) == (3.6e9, 900, 60_000)
    assert need.seconds == pytest.approx(2.0 + 0.9 + 0.6 + 18.0)
    assert need.cores == 1  # 21.5 of 60 seconds
    assert model.needs(36_000_000, 60).cores == 7  # 197 of 60 seconds, and as much idle time
    assert need.traffic == pytest.approx(1.5 * 3.6e9 / 60)
    assert need.recovery == pytest.approx(60.0 + 3.6e9 / 25e6 + need.seconds)
    assert model.needs(1000, 60).buckets == 64


def test_the_tables_of_the_guarantees(monkeypatch):
    """The script of docs/guarantees.md runs on short streams, and finds no violation."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    guarantees = import_module("guarantees")
    names = [name for name in guarantees.STREAMS if name != "Adult"]
    learners = guarantees.learners(0.5, 100)
    table = list(guarantees.main_table(names, rounds=150, budget=100))
    assert len(table) == 2 + len(names) * len(learners)
    rows = [line.strip("| ").split(" | ") for line in table[2:]]
    assert [row[1] for row in rows] == list(learners) * len(names)
    for row in rows:
        mistakes, bound, known = (int(cell.split()[0].replace(",", "")) for cell in row[2:])
        assert mistakes <= bound + 1
        assert mistakes <= known <= 150
        assert ("vacuous" in row[3]) == (bound >= known) or abs(bound - known) <= 1
    votes = list(guarantees.vote_table(names[:1], rounds=300, memory="1MB"))
    assert len(votes) == 2 + len(guarantees.VOTES)
    many = list(guarantees.many_table(1))
    assert len(many) == 3 + len(guarantees.MANY)
    for line in many[2:]:
        _, runs, violations, *_ = line.strip("| ").split(" | ")
        assert int(violations) == 0
        assert int(runs) >= 4
    page = (ROOT / "docs" / "guarantees.md").read_text()
    for name, lines in {"bounds": table, "votes": votes, "many runs": many}.items():
        assert "\n".join(lines) in guarantees.replaced(page, name, lines)
    # The page has a row for every stream and learner, and for every learner of the second table.
    for name in guarantees.STREAMS:
        for label in guarantees.learners(0.5, guarantees.BUDGET):
            assert f"| {name} | {label} |" in page, "run benchmarks/guarantees.py"
        for theorem in guarantees.VOTES:
            assert f"| {name} | `{theorem}` |" in page, "run benchmarks/guarantees.py"
    for label in guarantees.MANY:
        assert f"| {label} | " in page, "run benchmarks/guarantees.py"


def test_coverage_is_measured_on_every_stream_of_the_quality_benchmark(quality):
    results = json.loads((ROOT / "docs" / "conformal" / "results.json").read_text())
    assert list(results["classes"]) == list(quality["streams"].STREAMS)
    runs = [
        run
        for learners in (*results["classes"].values(), *results["numbers"].values())
        for run in learners.values()
    ]
    assert len(runs) >= 70
    assert max(abs(run["coverage"] - 0.9) for run in runs) < 0.01
