"""The papers' experiments: jobs against literal code, interrupted runs, and the page."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from budgetron import (
    CKSPerceptron,
    Forgetron,
    KernelPerceptron,
    PassiveAggressive,
    Projectron,
    ProjectronPlusPlus,
    RandomizedBudgetPerceptron,
    Stoptron,
    datasets,
    experiments,
    streams,
)
from budgetron.experiments import _studies
from budgetron.experiments._forgetron_tables import forgetron_table, width_table
from budgetron.experiments._published import FORGETRON, PROJECTRON
from budgetron.experiments._studies import STUDIES, Job, jobs_of, run_job
from budgetron.experiments._tables import projectron_table


def percent_error(model, X, y):
    return 100 * model.fit(X, y).mistakes_ / len(y)


def test_a_job_of_the_projectron_paper_equals_literal_code():
    X, y = streams.two_gaussians(10_000, 0.1, "variance", random_state=1)
    order = np.random.default_rng(7).permutation(10_000)
    X, y = X[order], y[order]
    result = run_job(Job("gaussians", 7))
    for name, error in result["errors"].items():
        learner, budget = name.rsplit(", ", 1)
        B = int(budget)
        U = 0.25 * np.sqrt((B + 1) / np.log(B + 1)) if B else None
        model = {
            "Perceptron": lambda: KernelPerceptron(gamma=1.0),
            "PA-I": lambda: PassiveAggressive(C=1.0, variant="PA-I", gamma=1.0),
            "Projectron": lambda U=U: Projectron(norm_bound=U, gamma=1.0),
            "Projectron++": lambda U=U: ProjectronPlusPlus(norm_bound=U, gamma=1.0),
            "Forgetron": lambda B=B: Forgetron(B, "self-tuned", gamma=1.0),
            "RBP": lambda B=B: RandomizedBudgetPerceptron(B, random_state=7, gamma=1.0),
            "Stoptron": lambda B=B: Stoptron(B, gamma=1.0),
        }[learner]()
        assert error == pytest.approx(percent_error(model, X, y), abs=1e-9), name
        assert result["supports"][name] == model.n_support_


def test_jobs_of_the_forgetron_paper_equal_literal_code():
    X, y = streams.two_gaussians(10_000, 0.05, "std", random_state=3, balanced=True)
    table = run_job(Job("noise-5", 3, 0.25))
    perceptron = KernelPerceptron(gamma=0.5)
    assert table["errors"]["Perceptron"] == [percent_error(perceptron, X, y)]
    (p,) = table["supports"]
    assert p == perceptron.n_support_ == perceptron.mistakes_
    B = round(p / 4)
    assert table["errors"]["basic"] == [percent_error(Forgetron(B, "basic", gamma=0.5), X, y)]
    assert table["errors"]["self-tuned"] == [percent_error(Forgetron(B, gamma=0.5), X, y)]
    assert table["errors"]["greedy"] == [percent_error(Forgetron(B, "greedy", gamma=0.5), X, y)]
    cumulative = Forgetron(B, "greedy-cumulative", gamma=0.5)
    assert table["errors"]["greedy-cumulative"] == [percent_error(cumulative, X, y)]
    assert table["errors"]["CKS"] == [percent_error(CKSPerceptron(B, gamma=0.5), X, y)]
    figure = run_job(Job("noise-5", 3))
    names = ["self-tuned", "greedy", "greedy-cumulative", "CKS", *(f"CG {run}" for run in range(10))]
    budgets = (10, 25, 50, 100, 200, 500, 1000, 2000)
    assert set(figure["errors"]) == {f"{name}, {budget}" for name in names for budget in budgets}
    cg = RandomizedBudgetPerceptron(50, random_state=4, gamma=0.5)
    assert figure["errors"]["CG 4, 50"] == [percent_error(cg, X, y)]
    assert figure["errors"]["self-tuned, 200"] == [percent_error(Forgetron(200, gamma=0.5), X, y)]
    whole = run_job(Job("noise-5", 3, 1.0))["errors"]  # no support is ever removed
    assert whole["self-tuned"] == whole["greedy"] == whole["CKS"] == whole["Perceptron"]


def test_every_labelling_of_the_digits_occurs_once(monkeypatch):
    digits = np.arange(10)
    monkeypatch.setattr(_studies, "_digits", lambda name: (np.eye(10), digits))
    halves = []
    for part in range(STUDIES["mnist"].parts):
        _, labellings = _studies._problems("mnist", Job("mnist", part, 0.25))
        halves += [frozenset(digits[y > 0].tolist()) for y in labellings]
    assert len(halves) == len(set(halves)) == 126
    assert {frozenset(half) for half in combinations(range(10), 5) if 0 in half} == set(halves)
    for job in (Job("mnist", 0, 0.25, quick=True), Job("usps-widths", 0, 0.25)):
        _, few = _studies._problems("mnist", job)
        assert len(few) == 4


def test_a_job_over_widths_equals_literal_code(monkeypatch):
    X, y = streams.two_gaussians(3000, 0.05, random_state=0)
    monkeypatch.setattr(_studies, "_problems", lambda data, job: (X, [y, -y]))
    small = replace(STUDIES["census-widths"], widths=(0.1, 2.0))
    monkeypatch.setitem(STUDIES, "census-widths", small)
    job = Job("census-widths", 0, 0.25)
    assert job.settings["gamma"] == [0.1, 2.0]
    errors = run_job(job)["errors"]
    assert len(errors) == 2 * 6
    for gamma in (0.1, 2.0):
        perceptron = KernelPerceptron(gamma=gamma)
        assert errors[f"Perceptron, {gamma:g}"] == [percent_error(perceptron, X, y)] * 2
        model = Forgetron(round(perceptron.n_support_ / 4), "greedy", gamma=gamma)
        assert errors[f"greedy, {gamma:g}"] == [percent_error(model, X, y)] * 2
    table = width_table({job: {"errors": errors}}, "census-widths")
    assert [row[0] for row in table.rows] == ["0.1", "2", "published"]
    assert table.rows[2][1:] == ("20.33", "30.44", "22.31", "24.06", "24.06", "33.48")
    error = errors["CKS, 2"][0]
    assert table.rows[1][6] == f"{error:.2f} ({error - 33.48:+.2f})"
    assert "confirms nothing" in table.to_markdown()
    assert width_table({}, "census-widths") is None


def test_sharing_between_labellings_changes_nothing():
    X, y = streams.two_gaussians(3000, random_state=0)
    labellings = [y, np.where(X[:, 0] > 0, 1.0, -1.0), -y]
    learners = [
        [{"a": Forgetron(30, gamma=0.5), "b": KernelPerceptron(gamma=0.5)} for _ in range(3)] for _ in "xy"
    ]
    shared = _studies.online_errors(X, labellings, learners[0])
    assert shared == _studies.online_errors(X, labellings, learners[1], share=False)
    assert shared["b"] == [percent_error(KernelPerceptron(gamma=0.5), X, labels) for labels in labellings]


def test_every_job_has_a_file_of_its_own():
    jobs = [job for study in STUDIES.values() for quick in (False, True) for job in jobs_of(study, quick)]
    assert len({job.key for job in jobs}) == len(jobs)


# ---------------------------------------------------------------------- running and resuming


@pytest.fixture
def small(monkeypatch):
    """Replace two studies by small ones."""
    small = {
        "gaussians": replace(STUDIES["gaussians"], parts=10, quick_parts=5),
        "noise-5": replace(STUDIES["noise-5"], parts=2, quick_parts=1, budgets=(10, 25)),
    }
    for name in list(STUDIES):
        monkeypatch.setitem(STUDIES, name, small.get(name, STUDIES[name]))
    return list(small)


def test_a_second_run_resumes(small, tmp_path):
    page = tmp_path / "page.md"
    reproduction = experiments.reproduce(page, small, quick=True, workers=1)
    jobs = tmp_path / "page" / ".jobs"
    modified = {path.name: path.stat().st_mtime_ns for path in jobs.iterdir()}
    assert len(modified) == 5 + 4
    assert reproduction.missing == {}
    assert set(reproduction.tables) == {"002-table-3", "003-table-8.1"}

    # Saved results are used. Jobs with damaged files or other settings are run again.
    (jobs / "noise-5-0.25-000-quick.json").write_text("{")
    incomplete = json.loads((jobs / "noise-5-1-000-quick.json").read_text())
    (jobs / "noise-5-1-000-quick.json").write_text(json.dumps(incomplete | {"result": {"seconds": 1}}))
    other = json.loads((jobs / "noise-5-000-quick.json").read_text())
    other["settings"]["gamma"] = 3.0
    (jobs / "noise-5-000-quick.json").write_text(json.dumps(other))
    seen = []
    again = experiments.reproduce(
        page, ["noise-5"], quick=True, workers=1, watch=lambda done, total, job: seen.append((done, total))
    )
    assert seen == [(done, 4) for done in range(5)]
    changed = {path.name for path in jobs.iterdir() if path.stat().st_mtime_ns != modified[path.name]}
    names = ("noise-5-0.25-000", "noise-5-1-000", "noise-5-000")
    assert changed == {f"{name}-quick.json" for name in names}
    # Studies of earlier runs stay on the page.
    assert again.tables["002-table-3"].rows == reproduction.tables["002-table-3"].rows

    text = page.read_text()
    assert "Projectron paper, Table 3" in text
    assert "- SensIT Vehicle (Projectron paper): 0 of 1 jobs were run." in text
    assert "synthetic, 5 % noise" not in text.partition("## Not included")[2]
    for path in reproduction.files:
        assert path.is_file()
        if path.suffix == ".png":
            assert f"](page/{path.name})" in text
    with (tmp_path / "page" / "002-table-3.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert float(rows[0]["published_error"]) == 18.80
    assert abs(float(rows[0]["error"]) - 18.80) < 3
    assert not list(tmp_path.rglob("*.part*"))


def test_sections_of_an_earlier_page_are_kept(small, tmp_path):
    page = tmp_path / "page.md"
    first = experiments.reproduce(page, small, quick=True, workers=1)
    for path in (tmp_path / "page" / ".jobs").iterdir():
        path.unlink()
    again = experiments.reproduce(page, ["gaussians"], quick=True, workers=1)
    text = page.read_text()
    # The rows of Table 8.1 come from its CSV file, the figures stay.
    assert again.tables["003-table-8.1"].rows == first.tables["003-table-8.1"].rows
    assert again.tables["003-table-8.1"].to_csv() == first.tables["003-table-8.1"].to_csv()
    earlier = (
        "From an earlier run: Forgetron paper, Figure 6; Forgetron paper, Figure 7; the rows synthetic, 5 %"
    )
    assert earlier in text
    assert "](page/003-figure-6.png)" in text
    assert "synthetic, 5 % noise" not in text.partition("## Not included")[2]
    # A table of the Projectron paper stays as it is.
    for path in (tmp_path / "page" / ".jobs").iterdir():
        path.unlink()
    experiments.reproduce(page, ["noise-5"], quick=True, workers=1)
    table = first.tables["002-table-3"]
    assert f"## {table.title}\n\n{table.to_markdown()}" in page.read_text()
    # So do figures of two data sets of which only one was run.
    kept = "Projectron paper, Table 3; Forgetron paper, Figure 6; Forgetron paper, Figure 7."
    assert f"From an earlier run: {kept}" in page.read_text()
    # A page with other options is replaced.
    for path in (tmp_path / "page" / ".jobs").iterdir():
        path.unlink()
    experiments.reproduce(page, ["gaussians"], workers=1)
    assert "earlier run" not in page.read_text()
    assert "noise-5" not in page.read_text()


def test_missing_data_is_reported(tmp_path, monkeypatch):
    def absent():
        raise datasets.DataNotFoundError("no such folder, no network")

    monkeypatch.setitem(experiments.LOADERS, "vehicle", absent)
    reproduction = experiments.reproduce(tmp_path / "page.md", ["vehicle"], quick=True)
    assert reproduction.missing == {"vehicle": "no such folder, no network"}
    assert reproduction.tables == {}
    text = (tmp_path / "page.md").read_text()
    assert (
        "- SensIT Vehicle (Projectron paper): the data set was not available. Table 2 of the Projectron "
        "paper is not verified." in text
    )


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match="studies are adult"):
        experiments.reproduce(tmp_path / "page.md", ["adlut"])
    with pytest.raises(ValueError, match="must have a suffix"):
        experiments.reproduce(tmp_path / "page", ["noise-5"])


REPRODUCE = [sys.executable, "-m", "budgetron", "reproduce", "noise-5", "--quick", "-j", "1", "-o", "page.md"]


def stopped(folder, kill, number):
    """Send a signal to `budgetron reproduce` after its first job; return its exit code and messages."""
    process = subprocess.Popen(
        REPRODUCE,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        # A process inherits the signal handlers, and tests that run in the background ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    jobs = folder / "page" / ".jobs"
    deadline = time.monotonic() + 60
    while not (jobs.is_dir() and list(jobs.glob("*.json"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill(process.pid, number)
    _, messages = process.communicate(timeout=60)  # waits also for the workers, which have the same output
    assert "The same command continues from here" in messages.decode()
    assert "Traceback" not in messages.decode()
    assert not (folder / "page.md").exists()
    return process.returncode, messages.decode()


@pytest.mark.skipif(os.name != "posix", reason="sends Ctrl-C as a POSIX signal")
def test_interrupted_by_ctrl_c(tmp_path):
    code, messages = stopped(tmp_path, os.killpg, signal.SIGINT)  # also to the workers, as a terminal does
    assert code == 130, messages
    jobs = tmp_path / "page" / ".jobs"
    before = {path: path.read_bytes() for path in jobs.glob("*.json")}
    assert 1 <= len(before) < 40
    done = subprocess.run(REPRODUCE, cwd=tmp_path, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "Forgetron paper, Table 8.1" in done.stdout.decode()
    assert len(list(jobs.glob("*.json"))) == 40
    assert all(path.read_bytes() == content for path, content in before.items())


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_interrupted_by_sigterm(tmp_path):
    code, messages = stopped(tmp_path, os.kill, signal.SIGTERM)  # only to the parent, as a container does
    assert code == 143, messages


# ---------------------------------------------------------------------- tables


def test_published_numbers_count_as_reproduced():
    entry = PROJECTRON["adult"]
    results = {
        Job("adult", part): {
            "errors": {f"{learner}, {B}": value.error + shift for (learner, B), value in entry.items()},
            "supports": {f"{learner}, {B}": value.supports for (learner, B), value in entry.items()},
        }
        for part, shift in enumerate([-0.1, 0.1])
    }
    table = projectron_table(results, "adult")
    assert [row[5] for row in table.rows] == ["yes"] * 12
    assert table.rows[0][2:5] == ("20.99 ± 0.14", "20.99 ± 0.06", "+0.00")
    for result in results.values():
        result["errors"]["Perceptron, 0"] += 0.31
        result["supports"]["Projectron, 1500"] *= 1.05
    rows = projectron_table(results, "adult").rows
    assert rows[0][4:6] == ("+0.31", "no")
    assert rows[2][8] == "no"
    assert "| Perceptron | none |" in projectron_table(results, "adult").to_markdown()


def table_results(shifts, runs=(0, 1)):
    """Return results of Table 8.1 on the noisy sets: the published errors plus a shift for each learner."""
    return {
        Job("noise-10", part, share): {
            "errors": {
                name: [row[name.removesuffix("-cumulative")] + shifts.get(name, 0.0) + 0.1 * part]
                for name in (*row, "greedy-cumulative")
            }
        }
        for (study, share), row in FORGETRON.items()
        if study == "noise-10"
        for part in runs
    }


def test_the_table_of_the_forgetron_paper():
    table = forgetron_table(table_results({}))
    assert [row[:3] for row in table.rows] == [
        (budget, "synthetic, 10 % noise", "2") for budget in ("p/4", "p/2", "p")
    ]
    assert table.rows[0][5] == "18.43 ± 0.07 (18.38, +0.05)"
    assert "18.43 ± 0.07 (18.38, +0.05)" in table.to_text()
    assert [row[9:] for row in table.rows] == [("all", "yes")] * 3
    assert "is not reproduced" not in table.to_markdown()
    assert forgetron_table({}) is None


def test_the_verdicts_of_the_forgetron_table():
    table = forgetron_table(table_results({"basic": 2.0, "greedy": -1.0}))
    near = "Perceptron, self-tuned, greedy-cumulative, CKS"
    # The basic Forgetron is now worse than the greedy one. At p the published errors differ by less than 0.3.
    assert [row[9:] for row in table.rows] == [(near, "no"), (near, "no"), (near, "yes")]
    assert (
        "B = p is not reproduced. Points from the published error: synthetic, 10 % noise +2."
        in table.notes[0]
    )
    few = forgetron_table(table_results({"CKS": 5.0}))
    assert [row[9:] for row in few.rows[:2]] == [
        ("Perceptron, basic, self-tuned, greedy, greedy-cumulative", "yes")
    ] * 2
    kept = [
        record
        for record in few.records
        if record["share"] != 0.25 and record["learner"] != "greedy-cumulative"
    ]
    partly = forgetron_table(
        {job: result for job, result in table_results({}).items() if job.share == 0.25}, kept
    )
    assert partly.rows[0][9:] == ("all", "yes")
    assert partly.rows[1][7] == "not run"
    assert partly.rows[1][9:] == ("Perceptron, basic, self-tuned, greedy", "yes")
