"""Progressive evaluation of regressors, compared with literal loops."""

import json

import numpy as np
import pytest
from sklearn.linear_model import SGDRegressor

from budgetron import (
    BudgetRegressor,
    ConformalRegressor,
    Forgetron,
    NormaRegressor,
    SecondOrderRegressor,
    linear,
    report,
    streams,
)
from budgetron._evaluation.regressor import TargetScale
from budgetron.evaluate import RegressionComparison, compare, progressive, tune


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    return X, 20.0 + 5.0 * X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=700)


def rmse(residuals):
    return np.sqrt(np.mean(np.square(residuals)))


def test_a_result_is_that_of_the_trace(rows):
    trace = BudgetRegressor("1MB").progressive_fit(*rows)
    result = progressive(BudgetRegressor("1MB"), rows, window=100)
    np.testing.assert_allclose(
        [result.rmse, result.mae, result.coverage, result.window_rmse],
        [trace.rmse, trace.mae, trace.coverage, rmse(trace.residuals[-100:])],
        rtol=1e-12,
    )
    assert (result.rounds, result.supports) == (700, trace.support_sizes[-1])
    width = np.median(np.diff(trace.intervals[-100:], axis=1))
    np.testing.assert_allclose(result.window_width, width, rtol=1e-12)
    curve = result.curve
    at = curve["round"] - 1
    np.testing.assert_allclose(curve["rmse"], trace.error_curve[at], rtol=1e-12)
    np.testing.assert_array_equal(curve["residual"], trace.residuals[at])
    np.testing.assert_array_equal(curve["prediction"], trace.predictions[at])
    low, high = trace.intervals.T
    inside = (low <= rows[1]) & (rows[1] <= high)
    for i in (0, 50, 400, 699):
        near = slice(max(0, i - 99), i + 1)
        np.testing.assert_allclose(curve["window_rmse"][i], rmse(trace.residuals[near]))
        np.testing.assert_allclose(curve["window_coverage"][i], inside[near].mean())


@pytest.mark.parametrize("delay", [0, 1, 7, 400])
@pytest.mark.parametrize("blocks", [[700], [1] * 700, [3, 297, 400]])
def test_baselines(rows, delay, blocks):
    X, y = rows
    comparison = RegressionComparison([linear.AROWRegressor()], delay=delay)
    start = 0
    for size in blocks:
        comparison.learn(X[start : start + size], y[start : start + size])
        start += size
    means, lasts = np.zeros(700), np.zeros(700)
    for t in range(delay + 1, 700):
        known = y[: t - delay]
        means[t], lasts[t] = known.mean(), known[-1]
    (result,) = comparison
    assert result.baselines == pytest.approx({"mean": rmse(y - means), "last": rmse(y - lasts)}, rel=1e-12)


@pytest.mark.parametrize("delay", [0, 5])
def test_blocks_do_not_change_the_results(rows, delay):
    X, y = rows
    found = []
    for size in (700, 100):
        comparison = RegressionComparison([linear.AROWRegressor(), NormaRegressor(gamma=0.1)], delay=delay)
        for start in range(0, 700, size):
            comparison.learn(X[start : start + size], y[start : start + size])
        comparison.finish()
        found.append([result.summary() for result in comparison])
        assert [result.model.rounds_ for result in comparison] == [700, 700]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(
            [one[name] for name in ("rmse", "mae", "window_rmse")],
            [other[name] for name in ("rmse", "mae", "window_rmse")],
            rtol=1e-12,
        )


def test_delayed_targets(rows):
    X, y = rows
    model, predictions = linear.AROWRegressor(), np.zeros(300)
    for t in range(300):
        if t > 4:
            predictions[t] = model.predict(X[t : t + 1])[0]
        if t >= 4:
            model.play(X[t - 4], y[t - 4])
    result = progressive(linear.AROWRegressor(), (X[:300], y[:300]), delay=4)
    np.testing.assert_allclose(result.rmse, rmse(y[:300] - predictions), rtol=1e-9)
    late = progressive(BudgetRegressor("1MB"), (X[:300], y[:300]), delay=4)
    assert late.coverage is not None
    assert 0.7 < late.coverage < 1.0


def test_intervals_before_the_first_target_is_seen(rows):
    X, y = rows
    model, covered = ConformalRegressor(linear.AROWRegressor()), 0
    for t in range(300):
        low, high = model.predict_interval(X[t : t + 1])[0] if t > 100 else (-np.inf, np.inf)
        covered += low <= y[t] <= high
        if t >= 100:
            model.play(X[t - 100], y[t - 100])
    result = progressive(ConformalRegressor(linear.AROWRegressor()), (X[:300], y[:300]), delay=100)
    assert result.coverage == covered / 300


def test_scaled_targets(rows):
    X, y = rows
    scale = TargetScale(20.0, 5.0)
    trace = SecondOrderRegressor(20, gamma=0.1).progressive_fit(X, (y - 20.0) / 5.0)
    comparison = RegressionComparison(
        {"scaled": SecondOrderRegressor(20, gamma=0.1), "not": SecondOrderRegressor(20, gamma=0.1)},
        target_scales={"scaled": scale},
    )
    comparison.learn(X, y)
    np.testing.assert_allclose(comparison["scaled"].rmse, 5.0 * trace.rmse, rtol=1e-12)
    plain = SecondOrderRegressor(20, gamma=0.1).progressive_fit(X, y)
    np.testing.assert_allclose(comparison["not"].rmse, plain.rmse, rtol=1e-12)


def test_a_state_continues(rows):
    X, y = rows
    whole = RegressionComparison([linear.AROWRegressor()], delay=3)
    first = RegressionComparison([linear.AROWRegressor()], delay=3)
    for comparison in (whole, first):
        comparison.learn(X[:400], y[:400])
    second = RegressionComparison([first[0].model], delay=3)
    second.resume(first.state())
    for comparison in (whole, second):
        comparison.learn(X[400:], y[400:])
        comparison.finish()
    names = ("seconds", "rounds_per_second")
    one, other = ({k: v for k, v in c[0].to_dict().items() if k not in names} for c in (whole, second))
    assert one == other
    with pytest.raises(ValueError, match="not those of a regressor"):
        whole[0].restore(whole[0].state() | {"sums": np.zeros(2)})


def test_other_libraries_and_jobs(rows):
    X, y = rows
    learners = {"sgd": SGDRegressor(random_state=0), "arow": linear.AROWRegressor()}
    alone, two = (compare(learners, rows, n_jobs=n) for n in (1, 2))
    assert [r.rmse for r in alone] == [r.rmse for r in two]
    model, predictions = SGDRegressor(random_state=0), np.zeros(700)
    for t in range(700):
        predictions[t] = model.predict(X[t : t + 1])[0] if t else 0.0
        model.partial_fit(X[t : t + 1], y[t : t + 1])
    np.testing.assert_allclose(alone["sgd"].rmse, rmse(y - predictions))
    assert alone.best().name == "arow"
    assert alone["sgd"].coverage is None
    assert alone["sgd"].nbytes == 0


def test_views(rows, tmp_path, capsys):
    grid = {"r": [0.1, 1000.0]}
    found = tune(linear.AROWRegressor(), streams.arrays(*rows, task="regression"), grid, verbose=True)
    assert found.best().name == "r=0.1"
    assert "error r=0.1 " in capsys.readouterr().err
    assert list(found.to_frame().index) == ["r=0.1", "r=1000.0"]
    assert len(found.curves()) == 1400
    assert "RMSE" in found._repr_html_()
    error = f"RMSE {found.best().rmse:.4g}"
    assert repr(found) == f"RegressionComparison(2 learners, 700 rounds, best r=0.1 {error})"
    assert repr(found.best()) == f"RegressionResult(r=0.1, 700 rounds, {error})"
    plain = json.loads(found.to_json())
    assert set(plain["results"][0]["curve"]["window_coverage"]) == {None}
    found.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_what_cannot_be_compared(rows):
    with pytest.raises(TypeError, match="all regressors, or all classifiers"):
        compare([Forgetron(), linear.AROWRegressor()], rows)
    with pytest.raises(ValueError, match="classes are for classifiers"):
        compare([linear.AROWRegressor()], rows, classes=[0, 1])
    with pytest.raises(ValueError, match="the stream has classes"):
        compare([linear.AROWRegressor()], streams.arrays(rows[0], rows[1] > 20.0))
    with pytest.raises(ValueError, match="must be numbers"):
        compare([linear.AROWRegressor()], (rows[0], np.array(["a"] * 700)))


def test_a_report(rows):
    learners = [BudgetRegressor("1MB"), linear.AROWRegressor(), linear.PARegressor(C=1e-9)]
    comparison = compare(learners, rows, window=100)
    page = report.render(
        {"numbers": comparison, "classes": compare([Forgetron(gamma=1.0)], (rows[0], rows[1] > 20))}
    )
    for text in (
        "has the smallest error of 3 learners",
        "Predicting the mean of the targets so far has RMSE",
        "RMSE of the last 100 rounds",
        "Targets inside of their intervals, %",
        "Target minus prediction",
        "<h3>Residuals</h3>",
        "! is worse than predicting the mean of the targets so far, or the last one",
        "<h3>Predicted and true classes</h3>",
        f"RMSE {comparison.best().rmse:.4g}</td>",
        "Balanced accuracy is the mean",
        "MAE the mean",
    ):
        assert " ".join(text.split()) in " ".join(page.split()), text
    alone = report.render(compare([linear.AROWRegressor()], (rows[0][:5], rows[1][:5])))
    assert "has an RMSE of" in alone
    assert "Its intervals contain" not in alone
    budget = report.render(compare([BudgetRegressor("1MB")], (rows[0][:99], rows[1][:99])))
    assert "Its intervals contain" in budget
    assert "and should contain 90.00 %" in budget
    assert "Balanced accuracy" not in alone
    assert "intervals, %" not in alone
