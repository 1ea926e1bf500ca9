"""Coverage and size of prediction sets: in evaluations, reports and on the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import budgetron
from budgetron import (
    ConformalClassifier,
    ConformalRegressor,
    Forgetron,
    SecondOrderProjectron,
    bounds,
    evaluate,
    report,
)
from budgetron._evaluation.coverage import coverage_of
from budgetron.cli import app


def rows(n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(3)
    return X, np.array(["no", "yes", "perhaps"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.5, 0.5])]


@pytest.fixture
def table(tmp_path):
    X, y = rows()
    lines = ["a,b,c,label", *(",".join([*map(str, x), label]) for x, label in zip(X, y, strict=True))]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def command(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def stream_of(done):
    """Return the results of the one stream of a command that prints JSON."""
    (stream,) = json.loads(done.stdout)["streams"].values()
    return stream


def test_an_evaluation_plays_the_rounds_of_progressive_fit():
    X, y = rows()
    learners = {
        "sets": ConformalClassifier(Forgetron(20, gamma=0.5), 0.8),
        "second order": ConformalClassifier(SecondOrderProjectron(20, gamma=0.5), 0.8),
        "plain": Forgetron(20, gamma=0.5),
    }
    compared = evaluate.compare(learners, (X, y))
    by_name = {result.name: result for result in compared}
    for name in ("sets", "second order"):
        alone = ConformalClassifier(learners[name].learner, 0.8)
        trace = alone.progressive_fit(X, y)
        found = coverage_of(by_name[name].model)
        assert found["coverage"] == trace.coverage
        assert found["mean_set_size"] == trace.mean_set_size
        assert found["guaranteed"] == 1 - bounds.conformal_misses(900, 0.8, 0.01) / 900
        assert by_name[name].mistakes == trace.mistakes.sum()
    assert by_name["sets"].mistakes == by_name["plain"].mistakes
    assert coverage_of(by_name["plain"].model) is None
    page = report.render(compared)
    figures = coverage_of(by_name["sets"].model)
    assert "<h3>Prediction sets</h3>" in page
    assert f"<td>{100 * figures['coverage']:.2f}</td>" in page
    assert f"<td>{figures['mean_set_size']:.2f}</td>" in page
    assert "Prediction sets" not in report.render(evaluate.compare({"plain": Forgetron(20)}, (X, y)))


@pytest.mark.parametrize("learner", ["arow", "budget:memory=300kB", "forgetron"])
def test_run_predicts_sets(table, tmp_path, learner):
    model, page = tmp_path / "model", tmp_path / "page.html"
    options = ["run", table, "-t", "label", "-l", learner, "--coverage", "0.8"]
    done = command(*options, "--save", model, "--report", page)
    assert done.exit_code == 0, done.output
    assert "Prediction sets" in done.output
    saved = budgetron.load(model)
    assert isinstance(saved, ConformalClassifier)
    assert (saved.coverage, saved.rounds_) == (0.8, 900)
    assert f"{100 * saved.coverage_:.2f}" in done.output
    assert f"{saved.mean_set_size_:.2f}" in done.output
    assert "<h3>Prediction sets</h3>" in page.read_text()
    found = stream_of(command(*options, "--json"))["prediction_sets"]
    (figures,) = found.values()
    assert figures["coverage"] == saved.coverage_
    assert command("predict", model, table).exit_code == 0


def test_sets_do_not_change_the_mistakes(table):
    options = ["compare", table, "-t", "label", "-l", "arow", "-l", "forgetron", "--json"]
    plain, sets = (stream_of(command(*options, *more)) for more in ([], ["--coverage", "0.9"]))
    before, after = ({one["learner"]: one["mistakes"] for one in found["results"]} for found in (plain, sets))
    assert before == after
    assert set(sets["prediction_sets"]) == set(before)
    assert "prediction_sets" not in plain


def test_certificates_of_sets(table):
    done = command("run", table, "-t", "label", "-l", "forgetron", "--coverage", "0.9", "--certify")
    assert done.exit_code == 0, done.output
    assert "Gibbs, Candes (2021)" in done.output
    assert "the bound holds" in done.output


def test_a_checkpoint_continues_with_sets(table, tmp_path):
    options = ["run", table, "-t", "label", "-l", "arow", "--coverage", "0.8", "--checkpoint", tmp_path / "c"]
    first = command(*options, "--every", "100", "--json")
    again = command(*options, "--every", "100", "--json")
    assert first.exit_code == again.exit_code == 0, again.output
    names = [stream_of(done)["prediction_sets"] for done in (first, again)]
    assert names[0] == names[1]
    other = command(*[0.9 if option == "0.8" else option for option in options])
    assert other.exit_code == 2
    assert "coverage was 0.8" in other.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coverage", "1"], "above 0 and below 1"),
        (["--coverage", "0.9", "--delay", "3"], "leave out --delay"),
        (["--coverage", "0.9", "--average"], "leave out --average"),
    ],
)
def test_options_that_do_not_fit_are_refused(table, options, message):
    done = command("run", table, "-t", "label", "-l", "arow", *options)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_a_saved_model_keeps_its_coverage(table, tmp_path):
    model = tmp_path / "model"
    assert (
        command("run", table, "-t", "label", "-l", "arow", "--coverage", "0.8", "--save", model).exit_code
        == 0
    )
    done = command("run", table, "--from", model, "--coverage", "0.9")
    assert done.exit_code == 2
    assert "--coverage cannot be given with --from" in " ".join(done.output.split())
    more = command("run", table, "-t", "label", "--from", model, "--save", tmp_path / "more")
    assert more.exit_code == 0, more.output
    assert budgetron.load(tmp_path / "more").counts_[0] == 1800


# ---------------------------------------------------------------------- intervals


@pytest.fixture
def numbers(tmp_path):
    X, _ = rows()
    rng = np.random.default_rng(1)
    y = (100.0 + 30.0 * X[:, 0] + 10.0 * rng.normal(size=len(X))).round(2)
    path = tmp_path / "numbers.csv"
    lines = [",".join([*map(str, x), str(target)]) for x, target in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,c,price", *lines]) + "\n")
    return path


@pytest.mark.parametrize("learner", ["arow", "budget:memory=1MB", "secondorder", "linear.pa"])
def test_run_predicts_intervals(numbers, tmp_path, learner):
    model, page = tmp_path / "model", tmp_path / "page.html"
    options = ["run", numbers, "-t", "price", "-l", learner, "--coverage", "0.8"]
    done = command(*options, "--save", model, "--report", page)
    assert done.exit_code == 0, done.output
    assert "Prediction intervals" in done.output
    assert "which aim at 80 %" in " ".join(done.output.split())
    saved = budgetron.load(model)
    assert isinstance(saved, ConformalRegressor)
    assert (saved.coverage, saved.rounds_) == (0.8, 900)
    assert abs(saved.coverage_ - 0.8) < 0.02
    assert f"{100 * saved.coverage_:.2f}" in done.output
    guaranteed = 1.0 - bounds.conformal_misses(900, 0.8, 0.01) / 900
    assert f"{100 * guaranteed:.2f}" in done.output
    content = page.read_text()
    assert "<h3>Prediction intervals</h3>" in content
    assert f"<td>{100 * guaranteed:.2f}</td>" in content
    found = stream_of(command(*options, "--json"))
    (figures,) = found["prediction_intervals"].values()
    (result,) = found["results"]
    assert figures["coverage"] == pytest.approx(result["coverage"]) == saved.coverage_
    assert result["level"] == 0.8
    # The noise has the standard deviation 10: 80 % of it is within 12.8, if f is known.
    assert 20.0 < result["window_width"] < 45.0
    output = tmp_path / "predictions.csv"
    done = command("predict", model, numbers, "--intervals", "-o", output)
    assert done.exit_code == 0, done.output
    table = np.genfromtxt(output, delimiter=",", names=True)
    assert ((table["low"] < table["prediction"]) & (table["prediction"] < table["high"])).all()
    targets = np.genfromtxt(numbers, delimiter=",", names=True)["price"]
    inside = ((table["low"] <= targets) & (targets <= table["high"])).mean()
    assert 0.7 < inside < 0.95
    assert f"{100 * inside:.1f} % of them are in their intervals" in done.output


def test_intervals_do_not_change_the_errors(numbers):
    options = ["compare", numbers, "-t", "price", "-l", "arow", "-l", "norma", "-l", "budget", "--json"]
    plain, found = (stream_of(command(*options, *more)) for more in ([], ["--coverage", "0.9"]))
    before, after = ({one["learner"]: one["rmse"] for one in each["results"]} for each in (plain, found))
    assert before == pytest.approx(after, rel=1e-12)
    assert set(found["prediction_intervals"]) == set(before)
    assert "prediction_intervals" not in plain


def test_infinite_widths_are_null_in_json(numbers):
    # After four rounds every interval was infinite.
    options = ["run", numbers, "-t", "price", "-l", "arow", "--coverage", "0.9", "--rows", "4"]
    done = command(*options, "--json")
    (result,) = stream_of(done)["results"]
    assert result["window_width"] is None
    assert result["coverage"] == 1.0
    assert "Infinity" not in done.stdout
    assert " inf" in command(*options).output


def test_certificates_and_checkpoints_of_intervals(numbers, tmp_path):
    options = ["run", numbers, "-t", "price", "-l", "secondorder", "--coverage", "0.8"]
    done = command(*options, "--certify")
    assert done.exit_code == 0, done.output
    assert "Gibbs, Candes (2021)" in done.output
    assert "the bound holds" in done.output
    found = [
        stream_of(command(*options, "--checkpoint", tmp_path / "c", "--every", "100", "--json", *rows))
        for rows in ([], [])
    ]
    assert found[0]["prediction_intervals"] == found[1]["prediction_intervals"]
    done = command(*options, "--delay", "3")
    assert done.exit_code == 2
    assert "leave out --delay" in " ".join(done.output.split())
