"""The command line with numbers as targets."""

import json
import signal

import kill
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import (
    BudgetRegressor,
    KernelPARegressor,
    NormaRegressor,
    SecondOrderRegressor,
    evaluate,
    linear,
    streams,
)
from budgetron._evaluation import parallel
from budgetron._evaluation.regression_result import error_text
from budgetron.cli import _pass, app


def command(*arguments, code=0):
    """Run the command in this process; return its output."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def results_of(*arguments):
    """Run a command, and return the results by learner."""
    (stream,) = json.loads(command(*arguments, "--json").stdout)["streams"].values()
    assert stream["task"] == "regression"
    return {result["learner"]: result for result in stream["results"]}


def refused(*arguments):
    """Return the message of a command that ends with an error."""
    return " ".join(command(*arguments, code=2).stderr.split())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a file with numbers, an id, a date, a category, missing values, and prices."""
    rng = np.random.default_rng(0)
    n = 900
    frame = pd.DataFrame(
        {"size": rng.normal(100, 20, n).round(1), "age": rng.integers(0, 80, n).astype(float)}
    )
    frame["city"] = rng.choice(["paris", "rome", "oslo"], n)
    noise = 5000 * rng.normal(size=n)
    price = 1000 * frame["size"] + 2 * (frame["age"] - 40) ** 2 * (frame["city"] == "rome") + noise
    frame.loc[::50, "age"] = np.nan
    frame.insert(0, "id", np.arange(n))
    frame["sold"] = pd.date_range("2024-01-01", periods=n).strftime("%Y-%m-%d")
    frame["price"] = price.round(2)
    path = tmp_path_factory.mktemp("data") / "prices.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Return a file with nothing but numbers, whole ones as targets."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 3)).round(3)
    y = (300 + 100 * X[:, 0] + 40 * X[:, 1] * X[:, 2] + 5 * rng.normal(size=800)).round().astype(int)
    path = tmp_path_factory.mktemp("data") / "numbers.csv"
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y).to_csv(path, index=False)
    return path


def rows_of(path, target, scale):
    stream = streams.read(path, target, constant=True, scale=scale, task="regression")
    blocks = list(stream)
    return np.vstack([X for X, _ in blocks]), np.concatenate([y for _, y in blocks]), stream.encoder


def agree(found, result):
    for name in ("rmse", "mae", "window_rmse", "coverage", "supports", "rounds"):
        assert found[name] == pytest.approx(getattr(result, name), rel=1e-9), name
    assert found["baselines"] == pytest.approx(result.baselines, rel=1e-9)


# ---------------------------------------------------------------------- run and predict


def test_run_save_predict(table, tmp_path):
    path = tmp_path / "m.budgetron"
    (found,) = results_of("run", table, "-t", "price", "--memory", "1MB", "--save", path).values()
    assert found["learner"] == "BudgetRegressor"
    X, y, encoder = rows_of(table, "price", scale=True)  # scaled, because there are categories
    result = evaluate.progressive(BudgetRegressor("1MB"), (X, y))
    agree(found, result)
    model = budgetron.load(path)
    np.testing.assert_array_equal(model.predict(X), result.model.predict(X))

    # Without targets, with the columns in another order
    frame = pd.read_csv(table)
    frame[["sold", "city", "age", "size"]].to_csv(tmp_path / "new.csv", index=False)
    done = command("predict", path, tmp_path / "new.csv", "--intervals")
    assert done.stderr == "900 rows predicted\n"
    (tmp_path / "out.csv").write_text(done.stdout)
    out = pd.read_csv(tmp_path / "out.csv")
    assert list(out) == ["prediction", "low", "high"]
    ((new, _),) = streams.read(tmp_path / "new.csv", encoder=encoder)
    np.testing.assert_allclose(out["prediction"], model.predict(new), rtol=1e-12)
    np.testing.assert_allclose(out[["low", "high"]], model.predict_interval(new), rtol=1e-12)

    # With targets, some of them missing, and as JSON
    frame["price"] = frame["price"].astype(object)
    frame.loc[:1, "price"] = ["", "unknown"]
    frame.to_csv(tmp_path / "some.csv", index=False)
    done = command("predict", path, tmp_path / "some.csv", "--intervals", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert list(rows[0]) == ["prediction", "low", "high"]
    residuals = y[2:] - [row["prediction"] for row in rows[2:]]
    inside = [row["low"] <= target <= row["high"] for row, target in zip(rows[2:], y[2:], strict=True)]
    rmse, mae = np.sqrt(np.mean(residuals**2)), np.abs(residuals).mean()
    assert (
        f"900 rows predicted, RMSE {error_text(rmse)}, MAE {error_text(mae)} on the rows with targets"
        in done.stderr
    )
    assert f"; {100 * np.mean(inside):.1f} % of them are in their intervals" in done.stderr


def test_the_budget_regressor_gets_unscaled_rows(numbers):
    (found,) = results_of("run", numbers, "-t", "y", "--memory", "1MB").values()
    X, y, _ = rows_of(numbers, "y", scale=False)
    agree(found, evaluate.progressive(BudgetRegressor("1MB"), (X, y)))


@pytest.mark.parametrize("options", [[], ["--no-scale"]])
def test_other_learners_get_scaled_rows_and_targets(numbers, tmp_path, options):
    path = tmp_path / "m.budgetron"
    (found,) = results_of("run", numbers, "-t", "y", "-b", 50, "--save", path, *options).values()
    assert found["learner"] == "SecondOrderRegressor"
    X, y, encoder = rows_of(numbers, "y", scale=not options)
    center, scale = (0.0, 1.0) if options else (y[:100].mean(), y[:100].std())
    trace = SecondOrderRegressor(50).progressive_fit(X, (y - center) / scale)
    assert found["rmse"] == pytest.approx(scale * trace.rmse, rel=1e-9)
    lines = command("predict", path, numbers).stdout.splitlines()
    ((new, _),) = streams.read(numbers, encoder=encoder)
    predictions = center + scale * budgetron.load(path).predict(new)
    np.testing.assert_allclose(list(map(float, lines[1:])), predictions, rtol=1e-12)


@pytest.mark.parametrize("learner", ["budget:memory=1MB", "second-order-regressor", "linear.arow"])
def test_learning_continues_as_if_both_files_were_one(numbers, tmp_path, learner):
    lines = numbers.read_text().splitlines(keepends=True)
    (tmp_path / "first.csv").write_text("".join(lines[:501]))
    (tmp_path / "second.csv").write_text(lines[0] + "".join(lines[501:]))
    gamma = ["-g", "0.2"] if "order" in learner else []  # otherwise that of the first block
    whole = results_of("run", numbers, "-t", "y", "-l", learner, *gamma, "--save", tmp_path / "whole")
    first = results_of(
        "run", tmp_path / "first.csv", "-t", "y", "-l", learner, *gamma, "--save", tmp_path / "m"
    )
    second = results_of("run", tmp_path / "second.csv", "--from", tmp_path / "m", "--save", tmp_path / "m")
    squares = [500 * r["rmse"] ** 2 for r in first.values()] + [300 * r["rmse"] ** 2 for r in second.values()]
    (one,) = whole.values()
    assert sum(squares) == pytest.approx(800 * one["rmse"] ** 2, rel=1e-9)
    texts = [command("predict", tmp_path / name, numbers).stdout for name in ("whole", "m")]
    one, both = ([float(line) for line in text.splitlines()[1:]] for text in texts)
    np.testing.assert_allclose(one, both, rtol=1e-9)


@pytest.mark.parametrize("learner", ["budget:memory=1MB", "secondorder", "norma", "linear.pa"])
@pytest.mark.parametrize("delay", [0, 30])
def test_a_stopped_run_ends_the_same(numbers, tmp_path, monkeypatch, learner, delay):
    def run(name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        options = [
            "-t",
            "y",
            "-l",
            learner,
            "--delay",
            delay,
            "--checkpoint",
            folder / "state",
            "--every",
            100,
        ]
        done = CliRunner().invoke(
            app, [str(o) for o in ("run", numbers, *options, "--save", folder / "m", "--json")]
        )
        return done, folder / "m"

    calls, original = [], _pass.Jobs.learn

    def crashing(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise SystemError("the process ended")
        return original(*arguments)

    monkeypatch.setattr(_pass.Jobs, "learn", crashing)
    assert isinstance(run("stopped")[0].exception, SystemError)
    monkeypatch.undo()
    (stopped, model), (whole, other) = run("stopped"), run("whole")
    assert "continuing after 300 rows" in " ".join(stopped.stderr.split())
    assert kill.without_times(json.loads(stopped.stdout)) == kill.without_times(json.loads(whole.stdout))
    assert model.read_bytes() == other.read_bytes()


def test_an_interrupt_saves_the_model(numbers, tmp_path, monkeypatch):
    original = _pass.Jobs.learn

    def interrupted(*arguments):
        done = original(*arguments)
        signal.raise_signal(signal.SIGINT)
        return done

    monkeypatch.setattr(_pass.Jobs, "learn", interrupted)
    path = tmp_path / "m.budgetron"
    done = command("run", numbers, "-t", "y", "-l", "arow", "--save", path, code=130)
    assert "Interrupted after 800 rounds." in done.stderr
    assert "RMSE" in done.stdout
    assert budgetron.load(path).rounds_ == 800


# ---------------------------------------------------------------------- compare and tune


@pytest.mark.parametrize("delay", [0, 3])
def test_compare(numbers, monkeypatch, delay):
    monkeypatch.setattr(parallel, "ROWS_AT_A_TIME", 300)
    found = results_of("compare", numbers, "-t", "y", "-b", 40, "-m", "1MB", "--delay", delay)
    models = {
        "BudgetRegressor": BudgetRegressor("1MB"),
        "SecondOrderRegressor": SecondOrderRegressor(40),
        "KernelPARegressor": KernelPARegressor(budget=40),
        "NormaRegressor": NormaRegressor(budget=40),
        "linear.AROWRegressor": linear.AROWRegressor(fit_intercept=False),
        "linear.PARegressor": linear.PARegressor(fit_intercept=False),
    }
    assert list(found) == list(models)
    for name, model in models.items():
        own = name == "BudgetRegressor"
        X, y, _ = rows_of(numbers, "y", scale=not own)
        center, scale = (0.0, 1.0) if own else (y[:100].mean(), y[:100].std())
        result = evaluate.progressive(model, (X, (y - center) / scale), delay=delay)
        assert found[name]["rmse"] == pytest.approx(scale * result.rmse, rel=1e-9), name
    divided = results_of("compare", numbers, "-t", "y", "-b", 40, "-m", "1MB", "--delay", delay, "-j", 2)
    assert {name: r["rmse"] for name, r in divided.items()} == {name: r["rmse"] for name, r in found.items()}


def test_compare_prints_tables_of_both_tasks(numbers, tmp_path):
    frame = pd.read_csv(numbers)
    frame.assign(y=np.where(frame["a"] > 0, "yes", "no")).to_csv(tmp_path / "classes.csv", index=False)
    done = command("compare", numbers, tmp_path / "classes.csv", "-t", "y", "-l", "arow", "-l", "linear.pa")
    text = " ".join(done.stdout.split())
    assert "800 rounds; the mean so far has RMSE" in text
    assert "linear.AROWRegressor" in text
    assert "always predicting" in text
    assert "linear.PassiveAggressive" in text


def test_the_table_fits_80_columns(numbers):
    lines = command("compare", numbers, "-t", "y", "-l", "budget", "-l", "linear.arow").stdout.splitlines()
    rule = next(line for line in lines if set(line.strip()) == {"\u2500"})
    assert len(rule.rstrip()) <= 80
    assert any("cov." in line for line in lines)
    assert any(
        "cov.: the share of the targets in their intervals, which aim at 90 %." in line for line in lines
    )


def test_tune(numbers):
    done = command("tune", numbers, "-t", "y", "-b", 5, "-b", 100, "-g", 0.0001, "-g", 0.3, "--json")
    found = json.loads(done.stdout)
    errors = {(one["budget"], one["gamma"]): one["rmse"] for one in found["tried"]}
    X, y, _ = rows_of(numbers, "y", scale=True)
    scale = y[:100].std()
    trace = SecondOrderRegressor(100, gamma=0.3).progressive_fit(X, (y - y[:100].mean()) / scale)
    assert errors[100, 0.3] == pytest.approx(scale * trace.rmse, rel=1e-9)
    assert (found["advice"]["budget"], found["advice"]["gamma"]) == min(errors, key=errors.get)
    done = command("tune", numbers, "-t", "y", "-b", 100, "-g", 0.3, "-l", "norma")
    assert "RMSE, 800 rounds" in done.stdout
    suggested = "--learner norma --budget 100 --gamma 0.3 --save model.budgetron (RMSE"
    assert suggested in " ".join(done.stderr.split())


def test_a_report(numbers, tmp_path):
    page = tmp_path / "page.html"
    command("run", numbers, "-t", "y", "-m", "1MB", "--report", page, "--window", 100)
    text = page.read_text()
    for part in ("<h3>Residuals</h3>", "Targets inside of their intervals, %", "RMSE of the last 100 rounds"):
        assert part in text


def test_certificates(numbers):
    done = command("run", numbers, "-t", "y", "-l", "linear.arow:variant=vaw", "--certify")
    assert "the bound holds" in " ".join(done.stdout.split())


def test_wide_rows_get_the_memory_that_they_need(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.3f} {1 + i}:1 60000:{rng.normal():.3f}" for i in range(30)]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    done = command("run", tmp_path / "t.svm", "--save", tmp_path / "m")
    assert "which rows of 60,001 features need" in " ".join(done.stderr.split())
    assert "memory must be at least" in refused("run", tmp_path / "t.svm", "--memory", "1MB")
    assert len(command("predict", tmp_path / "m", tmp_path / "t.svm").stdout.splitlines()) == 31


# ---------------------------------------------------------------------- which task


def test_the_decision_is_shown(table, numbers):
    for source, target in ((table, "price"), (numbers, "y")):
        done = command("inspect", source, "-t", target)
        assert "regression: the target has numbers" in done.stdout
        assert "number to predict" in done.stdout
        assert json.loads(command("inspect", source, "-t", target, "--json").stdout)["task"] == "regression"
    done = command("run", numbers, "-t", "y", "-l", "arow")
    assert "regression: the target has numbers" in " ".join(done.stderr.split())
    done = command("inspect", table, "-t", "city")
    assert "3 classes" in done.stdout
    assert json.loads(command("inspect", table, "-t", "city", "--json").stdout)["task"] == "classification"


def test_the_task_can_be_given(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i % 9}.5,{i % 30}\n" for i in range(300)))
    done = command("run", path, "-t", "y", "-l", "arow")
    assert "30 classes" in done.stderr
    remark = "the target has 30 different whole numbers, which are read as classes; if they are a quantity"
    assert remark in " ".join(done.stderr.split())
    assert list(results_of("run", path, "-t", "y", "-l", "arow", "--task", "regression")) == [
        "linear.AROWRegressor"
    ]
    path.write_text("x,y\n" + "".join(f"{i % 9}.5,{i % 3}.5\n" for i in range(300)))
    assert list(results_of("run", path, "-t", "y", "-l", "arow")) == ["linear.AROWRegressor"]
    message = refused("run", path, "-t", "y", "-l", "arow", "--task", "classification")
    assert "has decimals, like 0.5, so it cannot be the label of a classifier" in message
    path.write_text("x,y\n" + "".join(f"{i % 9}.5,{i % 400}\n" for i in range(800)))
    assert list(results_of("run", path, "-t", "y", "-l", "arow")) == ["linear.AROWRegressor"]
    done = command("run", path, "-t", "y", "-l", "arow", "--task", "classification")
    assert "400 classes" in done.stderr


def test_the_same_for_the_beginning_of_a_file(tmp_path):
    lines = ["x,y\n", *(f"{i % 9}.5,{i % 3}\n" for i in range(1200))]
    for name, rows in (("short.csv", lines[:50]), ("long.csv", [*lines, "1,2.5\n"])):
        (tmp_path / name).write_text("".join(rows))
    assert "3 classes" in command("run", tmp_path / "short.csv", "-t", "y", "-l", "arow").stderr
    message = refused("run", tmp_path / "long.csv", "-t", "y", "-l", "forgetron")
    assert (
        "has decimals, like 2.5, so it cannot be the label of a classifier; give --task regression" in message
    )
    command("run", tmp_path / "long.csv", "-t", "y", "-l", "arow", "--task", "regression")


def test_learners_of_the_other_task(numbers, table, tmp_path):
    message = refused("run", numbers, "-t", "y", "-l", "forgetron")
    assert "forgetron predicts classes, but the target has numbers; the learners of numbers are" in message
    assert "or give --task classification" in message
    message = refused("run", table, "-t", "city", "-l", "second-order-regressor")
    assert "second-order-regressor predicts numbers, but the target has classes" in message
    assert "there is no learner 'nosuch'" in refused(
        "run", tmp_path / "absent.csv", "-t", "y", "-l", "nosuch"
    )
    for learner in ("norma-regressor", "kernelpa", "linear.pa-regressor", "budget-regressor:memory=1MB"):
        assert len(results_of("run", numbers, "-t", "y", "-l", learner, "--rows", 60)) == 1


def test_options_of_classes(numbers, table, tmp_path):
    for options in (["--class-weight", "a=2"], ["--average", "-l", "norma"]):
        message = refused("run", numbers, "-t", "y", *options)
        assert f"{options[0]} is for classes, but the target has numbers" in message
    message = refused("run", numbers, "-t", "y", "--task", "regression", "--classes", "1,2")
    assert "--classes are labels, but --task is regression" in message
    command("run", numbers, "-t", "y", "-l", "arow", "--save", tmp_path / "m")
    for option in (["--proba"], ["--margins"], ["--threshold", "0.5"]):
        message = refused("predict", tmp_path / "m", numbers, *option)
        assert f"{option[0]} is for classes, but the model predicts numbers" in message
    message = refused("predict", tmp_path / "m", numbers, "--intervals")
    assert "--intervals: AROWRegressor has no intervals" in message
    command("run", table, "-t", "city", "-l", "arow", "--save", tmp_path / "classes")
    message = refused("predict", tmp_path / "classes", table, "--intervals")
    assert "--intervals is for numbers, but the model predicts classes" in message


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("low", "the target 'low' is not a number; correct it; if the targets are classes, give --task"),
        ("", "the target is missing; every row needs a target"),
        ("inf", "the target 'inf' is infinite; every row needs a finite target"),
    ],
)
def test_bad_targets(tmp_path, bad, message):
    lines = ["x,y\n", *(f"{i % 9}.5,{i % 3}.5\n" for i in range(2000))]
    lines[1500] = f"1.5,{bad}\n"
    path = tmp_path / "t.csv"
    path.write_text("".join(lines))
    assert f"{path}:1501: {message}" in refused("run", path, "-t", "y", "-l", "arow")


def test_decimal_commas_of_a_saved_model(tmp_path):
    """New rows are read like those that were learned, also if their form is not clear by itself."""
    rows = "".join(f"{i % 7},5;{1 + i % 5}.{i % 10}00,{i % 4}\n" for i in range(60))
    (tmp_path / "t.csv").write_text("x;y\n" + rows)
    (tmp_path / "new.csv").write_text("x;y\n1,5;1.234\n")
    command("run", tmp_path / "t.csv", "-t", "y", "-l", "arow", "--save", tmp_path / "m")
    done = command("predict", tmp_path / "m", tmp_path / "new.csv")
    error = abs(1234.0 - float(done.stdout.splitlines()[1]))
    assert f"MAE {error_text(error)} on the rows with targets" in done.stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"target_scale": [0.0]}, "how targets are scaled"),
        ({"target_scale": [0.0, -1.0]}, "how targets are scaled"),
        ({"target_scale": [float("nan"), 1.0]}, "how targets are scaled"),
        ({"target_scale": "ab"}, "how targets are scaled"),
        ({"targets": {"form": "abc", "unit": ""}}, "how targets are written"),
        ({"targets": {"form": ""}}, "how targets are written"),
        ({"targets": [1]}, "how targets are written"),
    ],
)
def test_a_damaged_model_file(numbers, tmp_path, changed, message):
    path = tmp_path / "m"
    command("run", numbers, "-t", "y", "-l", "arow", "--rows", 100, "--save", path)
    extras = budgetron.files.load_extras(path)
    assert set(changed) < set(extras)
    budgetron.save(budgetron.load(path), path, extras=extras | changed)
    assert f"the model file does not say {message}" in refused("predict", path, numbers)


def test_a_bundled_stream():
    (found,) = results_of("run", "data:friedman", "--rows", 300, "-l", "arow").values()
    assert found["rounds"] == 300
    bundled = {
        one["name"]: one["classes"] for one in json.loads(command("datasets", "--json").stdout)["bundled"]
    }
    assert bundled["friedman"] == 0
    assert "numbers" in command("datasets").stdout
