"""The command line, run in a separate process."""

import atexit
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import forked
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import BudgetClassifier, Forgetron, evaluate, linear, river, streams
from budgetron._base.access import bytes_needed
from budgetron.cli import _memory, app
from budgetron.cli._advice import OPTIONS
from budgetron.cli._predict import MODEL_ADVICE
from budgetron.cli._sources import BUNDLED

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "BUDGETRON_DATA"} | {
    "COLUMNS": "200"
}


@cache
def server():
    started = forked.Server(ENVIRONMENT)
    atexit.register(started.close)
    return started


def budgetron_command(*arguments, stdin=None, cwd=None, new_process=False):
    """Run the command; return its output, on both channels, and its exit code.

    The process is forked from one that has imported everything. With `new_process`, or with an input, a new
    Python process is started.
    """
    arguments = [str(argument) for argument in arguments]
    if hasattr(os, "fork") and stdin is None and not new_process:
        return server().run(arguments, cwd)
    return subprocess.run(
        [sys.executable, "-m", "budgetron", *arguments],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=ENVIRONMENT,
        timeout=120,
    )


def text_of(done):
    return done.stdout.decode() + done.stderr.decode()


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a file with numbers, a category and two classes."""
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(2),
            "city": rng.choice(["paris", "rome", "oslo"], n),
            "income": rng.normal(size=n).round(3),
        }
    )
    score = (frame["age"] - 40) / 10 * frame["income"] + (frame["city"] == "rome") - 0.3
    frame["label"] = np.where(score + 0.3 * rng.normal(size=n) > 0, "yes", "no")
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


# ---------------------------------------------------------------------- results


def test_run_save_predict(table, tmp_path):
    done = budgetron_command(
        *("run", table, "--target", "label", "--budget", 200, "--save", tmp_path / "m.budgetron", "--json"),
        new_process=True,
    )
    assert done.returncode == 0, text_of(done)
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    (figures,) = stream_result["results"]

    # The library gives the same result
    stream = streams.read(table, "label", constant=True)
    result = evaluate.progressive(Forgetron(200), stream)
    assert figures["mistakes"] == result.mistakes
    assert figures["confusion"] == result.confusion.tolist()
    model = budgetron.load(tmp_path / "m.budgetron")
    np.testing.assert_array_equal(model.dual_coef_, result.model.dual_coef_)

    # Predict rows without labels, with the columns in another order
    rows = pd.read_csv(table)
    rows[["income", "city", "age"]].head(500).to_csv(tmp_path / "new.csv", index=False)
    done = budgetron_command("predict", tmp_path / "m.budgetron", tmp_path / "new.csv", "--margins")
    assert done.returncode == 0, text_of(done)
    predicted = pd.read_csv(tmp_path / "new.csv").assign(prediction=0)
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "prediction,margin_yes"
    blocks = list(streams.read(tmp_path / "new.csv", encoder=stream.encoder))
    margins = np.concatenate([model.decision_function(X) for X, _ in blocks])
    np.testing.assert_allclose([float(line.split(",")[1]) for line in lines[1:]], margins)
    assert [line.split(",")[0] for line in lines[1:]] == np.where(margins > 0, "yes", "no").tolist()
    assert len(predicted) == len(lines) - 1 == 500

    # With labels, and to a file
    out = tmp_path / "out.jsonl"
    done = budgetron_command("predict", tmp_path / "m.budgetron", table, "--json", "-o", out)
    wrong = [json.loads(line)["prediction"] for line in out.read_text().splitlines()] != rows["label"]
    assert f", error {100 * wrong.mean():.2f} % on the rows with labels" in done.stderr.decode()


def test_run_with_the_default_learner(table, tmp_path):
    path = tmp_path / "m.budgetron"
    done = budgetron_command("run", table, "--target", "label", "--memory", "1MB", "--json", "--save", path)
    assert done.returncode == 0, text_of(done)
    model = budgetron.load(path)
    assert (model.memory, model.class_weight, model.random_state) == ("1MB", None, 0)
    assert model.nbytes_ <= 1 << 20
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    (result,) = stream_result["results"]
    assert result["learner"] == "BudgetClassifier"
    assert result["mistakes"] == model.mistakes_
    for options, message in (
        (["--memory", "1MB", "--budget", "9"], "the learner budget has --memory, but not --budget"),
        (
            ["-l", "budget", "--average"],
            "the learner budget has --memory, but not --budget, --gamma or --average",
        ),
        (["-l", "budget:memory=1MB", "--memory", "2MB"], "memory is given twice"),
        (["--memory", "1MB", "-l", "forgetron"], "--memory is for the learner budget"),
        (["--memory", "much"], "memory must be a number of bytes"),
        (["--memory", "1kB"], "memory must be at least"),
    ):
        done = budgetron_command("run", table, "--target", "label", *options)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.decode().split())


# ---------------------------------------------------------------------- scaling


@pytest.fixture(scope="module")
def measurements(tmp_path_factory):
    """Return a file with numbers of very different size, some missing, and two classes."""
    rng = np.random.default_rng(1)
    n = 1500
    frame = pd.DataFrame({"small": rng.normal(size=n) / 100, "large": 5000 + 900 * rng.normal(size=n)})
    score = 100 * frame["small"] * (frame["large"] - 5000) / 900 + 0.3 * rng.normal(size=n)
    frame.loc[::50, "large"] = np.nan
    frame["label"] = np.where(score > 0, "yes", "no")
    path = tmp_path_factory.mktemp("data") / "measurements.csv"
    frame.to_csv(path, index=False)
    return path


def rows_of(path, scale):
    """Return all rows and labels, and the encoder."""
    stream = streams.read(path, "label", constant=True, missing="mean", scale=scale)
    blocks = list(stream)
    return np.vstack([X for X, _ in blocks]), np.concatenate([y for _, y in blocks]), stream.encoder


def results_of(*arguments):
    """Run a command, and return the results by learner."""
    done = budgetron_command(*arguments, "-t", "label", "--missing", "mean", "--json")
    assert done.returncode == 0, text_of(done)
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    return {result["learner"]: result for result in stream_result["results"]}


@pytest.mark.parametrize("options", [[], ["--no-scale"]])
def test_the_budget_classifier_gets_unscaled_rows(measurements, tmp_path, options):
    path = tmp_path / "m.budgetron"
    model = BudgetClassifier("1MB", random_state=0)
    X, y, encoder = rows_of(measurements, scale=False)
    trace = model.progressive_fit(X, y)
    (result,) = results_of("run", measurements, "-m", "1MB", "--save", path, *options).values()
    assert result["mistakes"] == trace.mistakes.sum()
    saved = budgetron.load(path)
    np.testing.assert_array_equal(saved.decision_function(X), model.decision_function(X))
    assert not encoder.scale
    state = budgetron.files.load_extras(path)["encoder"]
    assert json.dumps(state, default=np.ndarray.tolist) == json.dumps(
        encoder.state(), default=np.ndarray.tolist
    )

    # Predictions also get unscaled rows, with the learned mean for missing values
    done = budgetron_command("predict", path, measurements, "--margins")
    assert done.returncode == 0, text_of(done)
    (new,) = (X for X, _ in streams.read(measurements, encoder=encoder))
    margins = [float(line.split(",")[1]) for line in done.stdout.decode().splitlines()[1:]]
    np.testing.assert_allclose(margins, model.decision_function(new), rtol=1e-12)


def test_with_categories_every_learner_gets_scaled_numbers(table, tmp_path):
    path = tmp_path / "m.budgetron"
    X, y, _ = rows_of(table, scale=True)
    model = BudgetClassifier("1MB", random_state=0)
    trace = model.progressive_fit(X, y)
    (result,) = results_of("run", table, "-m", "1MB", "--save", path).values()
    assert result["mistakes"] == trace.mistakes.sum()
    assert budgetron.files.load_extras(path)["encoder"]["options"]["scale"]
    both = results_of("compare", table, "-l", "budget:memory=1MB", "-l", "arow")
    assert both["BudgetClassifier"]["mistakes"] == result["mistakes"]
    X, y, _ = rows_of(table, scale=False)
    trace = BudgetClassifier("1MB", random_state=0).progressive_fit(X, y)
    (result,) = results_of("run", table, "-m", "1MB", "--no-scale").values()
    assert result["mistakes"] == trace.mistakes.sum()


@pytest.mark.parametrize("delay", [0, 3])
def test_each_learner_of_a_comparison_gets_its_rows(measurements, delay):
    names = ["forgetron", "rbp", "arow", "linear.pa", "budget:memory=1MB", "budget:memory=2MB"]
    learners = [word for name in names for word in ("-l", name)]
    found = results_of("compare", measurements, *learners, "-b", 50, "--delay", delay)
    models = {
        "Forgetron": Forgetron(50),
        "RandomizedBudgetPerceptron": budgetron.RandomizedBudgetPerceptron(50, random_state=0),
        "linear.AROW": linear.AROW(fit_intercept=False),
        "linear.PassiveAggressive": linear.PassiveAggressive(fit_intercept=False),
        "BudgetClassifier(memory='1MB')": BudgetClassifier("1MB", random_state=0),
        "BudgetClassifier(memory='2MB')": BudgetClassifier("2MB", random_state=0),
    }
    assert list(found) == list(models)
    for name, model in models.items():
        X, y, _ = rows_of(measurements, scale=not isinstance(model, BudgetClassifier))
        result = evaluate.progressive(model, (X, y), delay=delay)
        assert found[name]["confusion"] == result.confusion.tolist(), name
    unscaled = results_of("compare", measurements, *learners, "-b", 50, "--delay", delay, "--no-scale")
    X, y, _ = rows_of(measurements, scale=False)
    forgetron = evaluate.progressive(Forgetron(50), (X, y), delay=delay)
    assert unscaled["Forgetron"]["confusion"] == forgetron.confusion.tolist()
    for name in list(models)[-2:]:
        assert unscaled[name]["confusion"] == found[name]["confusion"]


def test_a_model_that_learned_scaled_rows_predicts_as_before(measurements, tmp_path):
    """Earlier versions passed scaled rows to BudgetClassifier, and saved an encoder that scales."""
    X, y, encoder = rows_of(measurements, scale=True)
    model = BudgetClassifier("1MB", random_state=0).partial_fit(X, y, classes=["no", "yes"])
    extras = {"encoder": encoder.state(), "target": "label", "constant": True, "zero_based": False}
    budgetron.save(model, tmp_path / "old.budgetron", extras=extras)
    done = budgetron_command("predict", tmp_path / "old.budgetron", measurements, "--margins")
    assert done.returncode == 0, text_of(done)
    (new,) = (X for X, _ in streams.read(measurements, encoder=encoder))
    margins = [float(line.split(",")[1]) for line in done.stdout.decode().splitlines()[1:]]
    np.testing.assert_allclose(margins, model.decision_function(new), rtol=1e-12)


def test_the_certificate_of_the_budget_classifier_is_that_of_its_rows(measurements):
    done = budgetron_command(
        *("compare", measurements, "-t", "label", "--missing", "mean", "-l", "budget", "-l", "perceptron"),
        *("--certify", "--json"),
    )
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    certificate = stream_result["certificates"]["BudgetClassifier"]
    X, y, _ = rows_of(measurements, scale=False)
    model = BudgetClassifier(random_state=0)
    trace = model.progressive_fit(X, y, ledger=True)
    expected = budgetron.certify(model, X, y, trace)
    assert certificate["count"] == expected.count
    assert certificate["bound"] == expected.bound


def test_advice_names_options_of_the_command_line():
    for table in (OPTIONS, MODEL_ADVICE):
        assert set(table) == set(streams.Advice)
        for text in table.values():
            assert not re.search(r"n_features|zero_based|header=|missing=|set ", text)


# ---------------------------------------------------------------------- compare, tune and certify


def test_compare_without_options(table, tmp_path):
    page = tmp_path / "out.html"
    done = budgetron_command("compare", table, "--target", "label", "--report", page)
    assert done.returncode == 0, text_of(done)
    for name in ("Forgetron", "ProjectronPlusPlus", "RandomizedBudgetPerceptron", "linear.AROW"):
        assert name in done.stdout.decode()
        assert name in page.read_text().replace(" ", "") or name.startswith(("Proj", "Rand", "linear"))
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert "budgetron compare" in page.read_text()


def test_the_report_names_the_relevant_features(tmp_path):
    rng = np.random.default_rng(0)
    values, level = rng.normal(size=(600, 3)), rng.choice(["low", "high"], 600)
    label = np.where(values[:, 1] + (level == "high") > 0.5, "yes", "no")
    columns = {"first": values[:, 0], "second": values[:, 1], "third": values[:, 2], "level": level}
    pd.DataFrame(columns | {"label": label}).to_csv(tmp_path / "table.csv", index=False)
    page = tmp_path / "page.html"
    done = budgetron_command(
        "run", tmp_path / "table.csv", "-t", "label", "--memory", "1MB", "--report", page
    )
    assert done.returncode == 0, text_of(done)
    shown = page.read_text().partition("Most relevant features")[2].partition("<h3>")[0]
    names = re.findall(r'<th scope="row">(.*?)</th>', shown)
    assert names[0] == "second"
    assert {"first", "third", "level=low", "level=high"} <= set(names)


def test_compare_budgets_as_json(table):
    done = budgetron_command(
        "compare", table, "-t", "label", "-l", "forgetron", "-l", "rbp:budget=7", "-b", 10, "-b", 40, "--json"
    )
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    assert [(r["learner"], r["supports"]) for r in stream_result["results"]] == [
        ("Forgetron(budget=10)", 10),
        ("Forgetron(budget=40)", 40),
        ("RandomizedBudgetPerceptron", 7),
    ]


@pytest.mark.parametrize("form", ["pipe", "gz", "jsonl", "parquet"])
def test_every_format_gives_the_same_result(table, tmp_path, form):
    frame, source, stdin = pd.read_csv(table), tmp_path / f"table.{form}", None
    if form == "pipe":
        source, stdin = "-", table.read_bytes()
    elif form == "gz":
        source = tmp_path / "table.csv.gz"
        source.write_bytes(gzip.compress(table.read_bytes()))
    elif form == "jsonl":
        frame.to_json(source, orient="records", lines=True)
    else:
        frame.to_parquet(source)
    done = budgetron_command("run", source, "-t", "label", "-b", 200, "--json", stdin=stdin)
    assert done.returncode == 0, text_of(done)
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    stream = streams.read(table, "label", constant=True)
    assert stream_result["results"][0]["mistakes"] == evaluate.progressive(Forgetron(200), stream).mistakes


def test_tune_gives_a_command_that_runs(table):
    near = budgetron_command("tune", table, "-t", "label", "--rows", 200, "-g", 0.10001, "-g", 0.10002)
    assert near.returncode == 0, text_of(near)
    done = budgetron_command("tune", table, "-t", "label", "--rows", 1500, "-b", 20, "-b", 100, "--json")
    output = json.loads(done.stdout)
    assert output["rounds"] == 1500
    assert len(output["tried"]) == 14
    least = min(entry["error_rate"] for entry in output["tried"])
    advice = output["advice"]
    assert advice["error_rate"] <= 1.05 * least
    X, y = zip(*streams.read(table, "label", constant=True), strict=True)
    X, y = np.vstack(X)[:1500], np.concatenate(y)[:1500]
    model = Forgetron(advice["budget"], gamma=advice["gamma"])
    assert model.progressive_fit(X, y).error_rate == advice["error_rate"]


def test_tune_says_why_it_chose_a_budget(tmp_path):
    X, y = streams.two_gaussians(3000, random_state=0)
    lines = [f"{a:.6f},{b:.6f},{label:g}" for (a, b), label in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    base = ["tune", tmp_path / "rows.csv", "-t", "y", "-g", 1.0, "-g", 2.0]
    base += [word for budget in (150, 200, 300, 3000) for word in ("-b", budget)]
    output = json.loads(budgetron_command(*base, "--json").stdout)
    least = min(entry["error_rate"] for entry in output["tried"])
    assert output["advice"]["error_rate"] > least, "the test needs a budget that is smaller than the best"
    shown = " ".join(budgetron_command(*base).stderr.decode().split())
    advice = output["advice"]
    command = f"--budget {advice['budget']} --gamma {advice['gamma']} --save model.budgetron"
    reason = f"{100 * advice['error_rate']:.2f} % error on these rows; the smallest budget within 5 % of the "
    assert f"{command} ({reason}least, {100 * least:.2f} % error)" in shown
    shown = " ".join(budgetron_command(*base[:8], "-b", advice["budget"]).stderr.decode().split())
    assert "% error on these rows)" in shown


def test_certify(tmp_path):
    X, y, _ = streams.separable(400, 5, 0.2, random_state=0)
    lines = [
        " ".join([f"{label:g}", *(f"{j + 1}:{v}" for j, v in enumerate(row))])
        for row, label in zip(X, y, strict=True)
    ]
    (tmp_path / "rows.libsvm").write_text("\n".join(lines) + "\n")
    done = budgetron_command(
        "run", tmp_path / "rows.libsvm", "-l", "linear.perceptron", "--no-constant", "--certify", "--json"
    )
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    (certificate,) = stream_result["certificates"].values()
    assert certificate["holds"]
    assert certificate["count"] == stream_result["results"][0]["mistakes"] <= certificate["bound"] < 400


@pytest.mark.parametrize("options", [[], ["--no-scale", "--rows", "2500"]])
def test_the_certificate_is_that_of_the_run(table, options):
    done = budgetron_command(
        "compare", table, "-t", "label", "-l", "perceptron", "-l", "pa", *options, "--certify", "--json"
    )
    assert done.returncode == 0, text_of(done)
    (stream_result,) = json.loads(done.stdout)["streams"].values()
    perceptron = stream_result["results"][0]
    assert stream_result["certificates"]["KernelPerceptron"]["count"] == perceptron["mistakes"]
    assert stream_result["certificates"]["KernelPerceptron"]["rounds"] == perceptron["rounds"]


@pytest.mark.parametrize(("learner", "scale"), [("budget", True), ("forgetron", True), ("budget", False)])
def test_a_saved_model_has_seen_only_the_prefix(table, tmp_path, learner, scale):
    if not scale:  # of a table of numbers
        pd.read_csv(table).drop(columns="city").to_csv(tmp_path / "numbers.csv", index=False)
        table = tmp_path / "numbers.csv"
    done = budgetron_command(
        *("run", table, "-t", "label", "-l", learner, "--rows", 100, "--save", tmp_path / "m.budgetron")
    )
    assert done.returncode == 0, text_of(done)
    assert budgetron.load(tmp_path / "m.budgetron").rounds_ == 100
    short = pd.read_csv(table).head(100)
    (tmp_path / "short.csv").write_text(short.to_csv(index=False))
    stream = streams.read(tmp_path / "short.csv", "label", constant=True, scale=scale)
    list(stream)
    saved = budgetron.files.load_extras(tmp_path / "m.budgetron")["encoder"]
    assert json.dumps(saved, default=np.ndarray.tolist) == json.dumps(
        stream.encoder.state(), default=np.ndarray.tolist
    )


def test_error_rate_of_predicted_rows_with_labels(tmp_path):
    rows = [f"{i % 7},{i % 5},{['1', '2', 'x'][i % 3]}" for i in range(300)]
    (tmp_path / "train.csv").write_text("\n".join(["a,b,y", *rows]))
    assert budgetron_command("run", "train.csv", "-t", "y", "--save", "m", cwd=tmp_path).returncode == 0
    (tmp_path / "numbers.csv").write_text("\n".join(["y,b,a", "1,0,0", "2,1,1", "1,4,4"]))
    done = budgetron_command("predict", "m", "numbers.csv", cwd=tmp_path)
    predicted = done.stdout.decode().split()[1:]
    wrong = sum(p != label for p, label in zip(predicted, ["1", "2", "1"], strict=True))
    assert f", error {100 * wrong / 3:.2f} % on the rows with labels" in done.stderr.decode()
    (tmp_path / "gaps.csv").write_text("\n".join(["a,b,y", "0,0,", "1,1,", "4,4,never"]))
    done = budgetron_command("predict", "m", "gaps.csv", cwd=tmp_path)
    assert done.returncode == 0, text_of(done)
    assert done.stderr.decode() == "3 rows predicted\n"

    # LIBSVM rows with labels that are not classes, and a model that was not saved by the command line
    (tmp_path / "train.svm").write_text(
        "\n".join(f"{1 if i % 2 else -1} 1:{i % 2} 2:{i % 7}" for i in range(99))
    )
    assert budgetron_command("run", "train.svm", "--save", "s", cwd=tmp_path).returncode == 0
    (tmp_path / "new.svm").write_text("0 1:1 2:3\n0 2:5\n")
    done = budgetron_command("predict", "s", "new.svm", cwd=tmp_path)
    assert done.stdout.decode().split() == ["prediction", "1", "-1"]
    assert done.stderr.decode() == "2 rows predicted\n"
    budgetron.save(Forgetron().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1]), tmp_path / "bare")
    done = budgetron_command("predict", "bare", "gaps.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "not saved by `budgetron run`" in done.stderr.decode()


def test_an_average_is_saved(table, tmp_path):
    done = budgetron_command(
        "run", table, "-t", "label", "--rows", 600, "--average", "--save", tmp_path / "m"
    )
    assert done.returncode == 0, text_of(done)
    model = budgetron.load(tmp_path / "m")
    X, y = next(iter(streams.read(table, "label", constant=True, limit=600)))
    expected = budgetron.batch.AveragedClassifier(Forgetron(200)).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))


def test_how_rows_are_read_and_the_next_command_are_printed(table):
    done = budgetron_command(
        "compare", table, "-t", "label", "-l", "forgetron", "-l", "rbp", "--ignore", "age"
    )
    text = done.stderr.decode()
    assert "table.csv: 6 features: 1 numeric (income), 1 one-hot (city), constant; 2 classes: no, yes" in text
    command = text.partition("Next: budgetron ")[2].partition("  (")[0].split()
    assert command[:2] == ["tune", str(table)]
    next_done = budgetron_command(*command, "--rows", 300)
    assert next_done.returncode == 0, text_of(next_done)
    last = next_done.stderr.decode().partition("Next: budgetron ")[2].partition("  (")[0].split()
    assert last[0] == "run"
    assert budgetron_command(*last, "--rows", 300).returncode == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_regular_files_are_replaced(table, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        done = budgetron_command("run", table, "-t", "label", "--save", path)
        assert done.returncode == 2
        assert "give the name of a file" in done.stderr.decode()
    copy = tmp_path / "copy.csv"
    copy.write_bytes(table.read_bytes())
    done = budgetron_command("run", copy, "-t", "label", "--save", copy)
    assert done.returncode == 2
    assert copy.read_bytes() == table.read_bytes()
    assert (tmp_path / "pipe").is_fifo()


def test_rows_without_header(table, tmp_path):
    rows = table.read_text().splitlines()[1:]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    done = budgetron_command("run", "rows.csv", "-t", -1, "--no-header", "--save", "m", cwd=tmp_path)
    assert done.returncode == 0, text_of(done)
    bare = "\n".join(row.rpartition(",")[0] for row in rows[:5])
    done = budgetron_command("predict", "m", "-", "--no-header", cwd=tmp_path, stdin=bare.encode())
    assert done.returncode == 0, text_of(done)
    assert len(done.stdout.decode().split()) == 1 + 5
    (tmp_path / "numbers.csv").write_text("1,2,0\n" * 5 + "2,1,1\n" * 5)
    done = budgetron_command("run", "numbers.csv", "-t", -1, cwd=tmp_path)
    assert "if the file has no header, give --no-header" in done.stderr.decode()


def test_tab_delimiters_and_missing_values(tmp_path):
    (tmp_path / "t.txt").write_text("a\tb\ty\n" + "1\t2\tu\n3\t1\tv\n" * 20)
    options = ["--delimiter", "\\t", "--missing", "error", "--save", "m"]
    done = budgetron_command("run", "t.txt", "-t", "y", *options, cwd=tmp_path)
    assert done.returncode == 0, text_of(done)
    (tmp_path / "gap.csv").write_text("a,b\n1,\n")
    done = budgetron_command("predict", "m", "gap.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "give --missing mean" in done.stderr.decode()
    done = budgetron_command("predict", "m", "gap.csv", "--missing", "mean", cwd=tmp_path)
    assert done.returncode == 0, text_of(done)


def test_the_same_stream_twice(table):
    done = budgetron_command("compare", table, table, "-t", "label", "-l", "arow", "--json")
    assert len(json.loads(done.stdout)["streams"]) == 2


def test_datasets_and_help():
    done = budgetron_command("datasets", "--json")
    output = json.loads(done.stdout)
    assert {"adult", "mnist", "vehicle"} <= {entry["name"] for entry in output["datasets"]}
    assert {"digits", "two-gaussians", "friedman"} == {entry["name"] for entry in output["bundled"]}
    assert {"name", "rows", "features", "classes", "description"} == set(output["bundled"][0])
    for entry in output["bundled"]:
        X, y = BUNDLED[entry["name"]].load()
        classes = 0 if entry["name"] == "friedman" else len(np.unique(y))  # numbers are predicted
        assert (entry["rows"], entry["features"], entry["classes"]) == (*X.shape, classes)
    assert " 1,797 " in budgetron_command("datasets").stdout.decode()
    listed = budgetron_command("--help").stdout.decode()
    for command in ("run", "compare", "predict", "tune", "reproduce", "datasets"):
        assert f" {command} " in listed
    assert (
        budgetron_command("--version", new_process=True).stdout.decode()
        == f"budgetron {budgetron.__version__}\n"
    )


def test_a_learner_by_each_of_its_names():
    from budgetron._evaluation.by_name import ALIASES, learners_of, names

    for name in [*names(), *ALIASES]:
        (model,) = learners_of([name], [30], ["0.5"], seed=1)
        X, y = streams.two_gaussians(60, random_state=0)
        model.fit(np.abs(X), y)  # Winnow without `balanced` accepts any rows, but has no negative weights


# ---------------------------------------------------------------------- errors


def truncated(path):
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(b"a,b,y\n" + b"1,2,u\n3,4,v\n" * 50_000)[:-300])
    return path.with_suffix(".csv.gz")


def parquet_with_nulls(path):
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "y": ["u", "v", "u"]})
    frame.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


ROW = b"1.5,2.5,u\n0.5,1.5,v\n"

BAD = {
    "too many fields": (b"a,b,y\n" + ROW * 50_000 + b"1,2,3,u\n" + ROW, [], ":100002: "),
    "text in a numeric column": (b"a,b,y\n" + ROW * 5 + b"1,two,u\n" + ROW, [], ":12: "),
    "text in a numeric column, far on": (b"a,b,y\n" + ROW * 80_000 + b"1,two,u\n" + ROW, [], ":160002: "),
    "unknown label": (b"a,b,y\n" + ROW * 5 + b"1,2,w\n", ["--classes", "u,v"], ":12: "),
    "empty": (b"", [], "empty"),
    "header only": (b"a,b,y\n", [], "no rows"),
    "directory": (lambda path: path.parent, [], "directory"),
    "missing file": (lambda path: path.with_name("nosuch.csv"), [], "no such file"),
    "truncated gzip": (truncated, [], "cut short"),
    "Parquet with nulls": (parquet_with_nulls, ["--missing", "error"], "row 2"),
    "missing value": (b"a,b,y\n" + ROW + b"1,,u\n", ["--missing", "error"], ":4: "),
    "no such target": (b"a,b,z\n" + ROW, [], '"z"'),
    "one class": (b"a,b,y\n1,2,u\n3,4,u\n", [], "1 class"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    content, options, where = BAD[name]
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "bad.csv"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path = content(path)
    out = tmp_path / "out"
    out.mkdir()
    outputs = ["--save", out / "model.budgetron", "--report", out / "page.html"]
    done = budgetron_command("run", path, "--target", "y", *options, *outputs)
    message = done.stderr.decode()
    assert done.returncode == 2, text_of(done)
    assert message.startswith("budgetron: ")
    assert message.count("\n") == 1
    assert path.name in message
    assert where in message
    assert "Traceback" not in message
    assert done.stdout == b""
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "t.csv", "-t", "label", "-l", "forgetron:budge=3"], "no parameter budge; it has budget"),
        (["run", "t.csv", "-t", "label", "-l", "forgtron"], "there is no learner 'forgtron'"),
        (["run", "t.csv", "-t", "label", "-g", "-1"], "'gamma' parameter"),
        (["run", "t.csv", "-t", "label", "--save", "no/such/m"], "there is no folder"),
        (["run", "data:nosuch"], "there is no data set 'nosuch'; the data sets are digits"),
        (["run", "data:digit"], "there is no data set 'digit'; did you mean data:digits?"),
        (["run", "digits"], "digits: no such file; for the data set of this name give data:digits"),
        (["run", "https://example.org/a.csv"], "URLs are not supported; download the file first"),
        (
            ["run", "t.csv"],
            'no target column given; the columns are "age", "city", "income", "label"; give --target',
        ),
        (
            ["run", "t.csv", "-t", "income", "--task", "classification"],
            'column "income": more than 1000 different labels',
        ),
        (["predict", "t.csv", "t.csv"], "t.csv"),
        (["tune", "t.csv", "-t", "label", "-l", "arow"], "no width to tune"),
        (
            ["run", "t.csv", "-t", "label", "--certify", "--delay", "3"],
            "the theorems assume that labels are not delayed",
        ),
        (["reproduce", "nosuch"], "studies are adult"),
        (["run"], "Missing argument"),
        (["run", "t.csv", "--nosuch"], "No such option"),
    ],
)
def test_bad_arguments(table, tmp_path, arguments, expected):
    (tmp_path / "t.csv").write_bytes(table.read_bytes())
    done = budgetron_command(*arguments, cwd=tmp_path)
    assert done.returncode == 2, text_of(done)
    assert expected in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.fixture(scope="module")
def rows_and_models(tmp_path_factory):
    """Return a folder with files of each kind, and a model learned from some of them."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "t.csv").write_text("a,b,y\n" + "1.5,red,u\n-0.5,blue,v\n" * 20)
    (folder / "bare.csv").write_text("1.5,red,u\n-0.5,blue,v\n" * 20)
    (folder / "less.csv").write_text("b,y\nred,u\nblue,v\n")
    (folder / "one.libsvm").write_text("1 1:2 2:1\n0 1:-2 2:1\n" * 20)
    (folder / "zero.libsvm").write_text("1 0:2 1:1\n0 0:-2 1:1\n" * 20)
    (folder / "wide.libsvm").write_text("1 1:2 9:1\n")
    for source, options in {
        "t.csv": ["-t", "y"],
        "one.libsvm": [],
        "zero.libsvm": ["--zero-based"],
    }.items():
        # Not the default learner, which would learn that labels alternate
        done = budgetron_command("run", source, *options, "-b", 200, "--save", f"{source}.model", cwd=folder)
        assert done.returncode == 0, text_of(done)
    budgetron.save(river.Forgetron(), folder / "river.model")
    return folder


@pytest.mark.parametrize(
    ("model", "source", "options", "expected"),
    [
        (
            "t.csv",
            "less.csv",
            [],
            'column "a" is missing; the columns are "b", "y"; give the columns that the model learned',
        ),
        (
            "t.csv",
            "bare.csv",
            ["--no-header"],
            'the columns are "c1", "c2", "c3"; give the columns that the model learned',
        ),
        ("t.csv", "one.libsvm", [], "the model learned a table; give rows with the same columns"),
        ("t.csv", "digits", [], "for the data set of this name give data:digits"),
        (
            "one.libsvm",
            "wide.libsvm",
            [],
            "index 9 is above 2, the highest expected; the model does not have this feature; remove it",
        ),
        (
            "one.libsvm",
            "zero.libsvm",
            [],
            "index 0, but indices count from 1; the model learned rows whose indices count from 1",
        ),
        (
            "one.libsvm",
            "t.csv",
            [],
            "the model learned LIBSVM rows, in which a line has the form `label index:value",
        ),
        (
            "one.libsvm",
            "t.csv",
            ["--format", "csv"],
            "t.csv: the format is csv; the model learned LIBSVM rows; give rows in this format",
        ),
        ("river", "one.libsvm", [], "cannot predict rows of a file; use it in Python"),
    ],
)
def test_rows_that_a_model_cannot_predict(rows_and_models, model, source, options, expected):
    done = budgetron_command("predict", f"{model}.model", source, *options, cwd=rows_and_models)
    message = done.stderr.decode()
    assert done.returncode == 2, text_of(done)
    assert expected in message
    options_of_predict = {
        "--output",
        "--margins",
        "--format",
        "--header",
        "--delimiter",
        "--target",
        "--missing",
        "--json",
    }
    assert set(re.findall(r"--[a-z]+", message)) <= options_of_predict


def test_texts_for_one_row_and_several_classes(rows_and_models):
    done = budgetron_command("predict", "one.libsvm.model", "-", stdin=b"1 1:2\n", cwd=rows_and_models)
    assert done.stderr.decode().startswith("1 row predicted")
    note = "The budget is per class; supports are those of all classes."
    done = budgetron_command("run", "data:digits", "--rows", 50, "--average", "-g", "auto")
    assert note in done.stdout.decode().splitlines()
    done = budgetron_command("run", "data:digits", "--rows", 50, "-l", "arow")
    assert done.returncode == 0
    assert note not in done.stdout.decode()


def test_a_quantity_is_not_a_class(rows_and_models, tmp_path):
    done = budgetron_command("run", "t.csv", "-t", "a", "--task", "classification", cwd=rows_and_models)
    assert done.returncode == 2
    assert 't.csv: column "a" has decimals, like -0.5, so it cannot be the label of a classifier; ' in (
        done.stderr.decode()
    )
    (tmp_path / "a.libsvm").write_text("1.5 1:1\n2 1:2\n")
    done = budgetron_command("run", "a.libsvm", "--task", "classification", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "a.libsvm: the first column has decimals, like 1.5, so it cannot be the label of a classifier"
        in done.stderr.decode()
    )


def test_indices_from_zero(rows_and_models):
    done = budgetron_command("run", "zero.libsvm", cwd=rows_and_models)
    assert done.returncode == 2
    assert (
        "index 0, but indices count from 1; if they count from 0, give --zero-based" in done.stderr.decode()
    )
    predicted = budgetron_command("predict", "zero.libsvm.model", "zero.libsvm", cwd=rows_and_models)
    assert predicted.returncode == 0, text_of(predicted)
    assert "40 rows predicted, error 0.00 %" in predicted.stderr.decode()
    advised = budgetron_command("compare", "zero.libsvm", "--zero-based", "--json", cwd=rows_and_models)
    assert advised.returncode == 0, text_of(advised)
    done = budgetron_command("run", "t.csv", "-t", "y", "--zero-based", cwd=rows_and_models)
    assert (
        "t.csv: the format is csv; --features and --zero-based are for LIBSVM files" in done.stderr.decode()
    )


def wait_until_idle(process):
    """Wait until the process has worked, and then has slept for a second."""
    worked, since = 0, time.monotonic()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not worked or time.monotonic() - since < 1.0):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        now = int(fields[11]) + int(fields[12])  # hundredths of a second of processor time
        if now != worked or fields[0] != "S":  # a process that waits for a processor does not sleep
            worked, since = now, time.monotonic()
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find when to interrupt")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_saves_what_it_learned(number, code, tmp_path):
    model = tmp_path / "m.budgetron"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "budgetron",
            "run",
            "-",
            "-t",
            "y",
            "--classes",
            "u,v",
            "-b",
            "200",
            "--save",
            str(model),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    process.stdin.write(b"a,b,y\n" + ROW * 60_000)  # more than the first chunk, which decides the types
    process.stdin.flush()
    wait_until_idle(process)  # it waits for more rows
    process.send_signal(number)
    output, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert "Interrupted after 120,000 rounds" in error.decode()
    assert "Traceback" not in error.decode()
    assert budgetron.load(model).rounds_ == 120_000
    assert b"Forgetron" in output


def test_missing_packages_of_the_command_line_are_reported(tmp_path):
    (tmp_path / "typer.py").write_text("raise ImportError('no', name='typer')")
    done = subprocess.run(
        [sys.executable, "-m", "budgetron"],
        capture_output=True,
        env=ENVIRONMENT | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 1
    assert done.stderr.decode().strip() == (
        "budgetron: the command line needs typer: pip install 'budgetron[cli]'"
    )


# ---------------------------------------------------------------------- memory


@pytest.fixture
def in_memory_of(monkeypatch):
    """Return a function that runs the command, in this process, as if so many bytes were available."""

    def run(size, *arguments):
        monkeypatch.setattr(_memory, "available_bytes", lambda: size)
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return done.output, done.exit_code

    return run


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Return a LIBSVM file of 3,000 features and 4 classes."""
    path = tmp_path_factory.mktemp("data") / "wide.libsvm"
    path.write_text("".join(f"{t % 4} {t % 4 + 1}:1 {t + 10}:1 3000:0.5\n" for t in range(40)))
    return path


def test_compare_skips_learners_that_do_not_fit(wide, in_memory_of):
    learners = ["-l", "arow:covariance=full", "-l", "arow", "-l", "forgetron"]
    output, code = in_memory_of(50 * 2**20, "compare", wide, *learners, "--json")
    assert code == 0
    # Twice 4 d^2 bytes
    skipped, results = output.splitlines()
    assert skipped == (
        "Skipped linear.AROW(covariance='full'): learning rows of 3,001 features and 4 classes needs about "
        "69.1 MB, twice the size of the model, and 50 MB are available; give covariance=diagonal"
    )
    results = json.loads(results)["streams"][str(wide)]["results"]
    assert [result["learner"] for result in results] == ["linear.AROW(covariance='auto')", "Forgetron"]


def test_compare_skips_learners_that_do_not_fit_together(wide, in_memory_of):
    forgetron = bytes_needed(Forgetron(200), next(iter(streams.read(wide)))[0], 4)
    learners = ["-l", "forgetron", "-l", "stoptron"]
    output, code = in_memory_of(int(3.5 * forgetron), "compare", wide, *learners, "--json")
    assert code == 0
    skipped, results = output.splitlines()
    assert skipped.startswith("Skipped Stoptron")
    assert "give a smaller --budget" in skipped
    results = json.loads(results)["streams"][str(wide)]["results"]
    assert [result["learner"] for result in results] == ["Forgetron"]


def test_compare_skips_a_budget_classifier_with_too_little_memory(wide, in_memory_of):
    output, code = in_memory_of(2**40, "compare", wide, "-l", "budget:memory=64kB", "-l", "arow", "--json")
    assert code == 0
    skipped, results = output.splitlines()
    assert skipped.startswith("Skipped BudgetClassifier: memory must be at least")
    results = json.loads(results)["streams"][str(wide)]["results"]
    assert [result["learner"] for result in results] == ["linear.AROW"]


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_command_without_a_learner_that_fits_is_refused(command, wide, in_memory_of):
    output, code = in_memory_of(50 * 2**20, command, wide, "-l", "arow:covariance=full")
    assert code == 2
    reason = (
        "learning rows of 3,001 features and 4 classes needs about 69.1 MB, twice the size of the model, "
    )
    assert output.startswith(f"budgetron: linear.AROW: {reason}and 50 MB are available")


def test_tune_refuses_budgets_that_do_not_fit(wide, in_memory_of):
    output, code = in_memory_of(100 * 2**20, "tune", wide, "--budget", "100", "--budget", "10000000")
    assert code == 2
    assert "budget 10000000" in output


def test_a_run_continues_without_an_estimate(wide, in_memory_of, tmp_path):
    command = ["run", wide, "-l", "arow", "--checkpoint", tmp_path / "state", "--every", 10]
    first, _ = in_memory_of(None, *command)
    again, code = in_memory_of(0, *command)
    assert code == 0
    assert "complete after 40 rows" in again
    assert first.splitlines()[-4:] == again.splitlines()[-4:]


def test_wrong_parameters_are_refused_before_the_estimate(wide, in_memory_of):
    output, code = in_memory_of(0, "compare", wide, "-l", "forgetron:gamma=wide")
    assert code == 2
    assert "'gamma' parameter of Forgetron must be" in output
