"""The counts of a service are those of their definition, for any cut of the labels into blocks."""

import math

import numpy as np
import pytest

from budgetron.portfolio._changes import CHUNK, ChangeDetector
from budgetron.serve._statistics import POINTS, ClassStatistics, NumberStatistics


def stream(seed, n):
    """Return labels and predictions; the error rate changes at times."""
    random = np.random.default_rng(seed)
    shares = np.repeat(random.random(n // 500 + 1), 500)[:n]
    labels = random.integers(0, 3, n)
    return labels, np.where(random.random(n) < shares, labels, random.integers(-1, 3, n))


def one_by_one(labels, predicted):
    """Return what is counted, written from the definitions."""
    wrong = (labels != predicted).tolist()
    curve, spacing, changes, detector = [], 16, [], ChangeDetector()
    for count in range(1, len(wrong) + 1):
        if count % CHUNK == 0 and detector.add(CHUNK, sum(wrong[count - CHUNK : count])):
            changes.append(count)
        if count % spacing == 0:
            recent = wrong[max(0, count - 1000) : count]
            curve.append([count, sum(recent) / len(recent)])
            if len(curve) >= POINTS:
                curve, spacing = curve[1::2], 2 * spacing
    return curve, changes


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [1, 40, 3000])
def test_any_cut_gives_the_counts_of_the_definition(seed, most):
    labels, predicted = stream(seed, 9000)
    found, random, start = ClassStatistics(3), np.random.default_rng(seed), 0
    while start < len(labels):
        stop = start + int(random.integers(1, most + 1))
        part = slice(start, stop)
        found.add(labels[part], predicted[part], 1.0, np.full(len(labels[part]), math.nan))
        start = stop
    wrong = labels != predicted
    curve, changes = one_by_one(labels, predicted)
    assert (found.labels, found.errors) == (9000, wrong.sum())
    assert found.recent_error == wrong[-1000:].mean()
    assert found.curve == curve
    assert [count for count, _ in found.changes] == changes
    assert changes  # otherwise the test shows little
    again = ClassStatistics(3).restored(found.state())
    assert again.curve == curve
    assert again.recent_error == found.recent_error


@pytest.mark.parametrize("most", [1, 40, 3000])
def test_errors_of_numbers_are_those_of_their_definition(most):
    random, start = np.random.default_rng(7), 0
    labels = 1e6 + random.normal(size=5000)
    predicted = labels + np.linspace(0, 5, 5000) * random.normal(size=5000)
    found = NumberStatistics()
    while start < len(labels):
        part = slice(start, start + int(random.integers(1, most + 1)))
        found.add(labels[part], predicted[part], 1.0, np.full(len(labels[part]), math.nan))
        start = part.stop
    residuals = labels - predicted
    for statistics in (found, NumberStatistics().restored(found.state())):
        shown = statistics.describe()
        assert shown["rmse"] == pytest.approx(np.sqrt(np.mean(residuals**2)))
        assert shown["recent_rmse"] == pytest.approx(np.sqrt(np.mean(residuals[-1000:] ** 2)))
        assert shown["mae"] == pytest.approx(np.mean(np.abs(residuals)))
        for count, error in statistics.curve:
            recent = residuals[max(0, int(count) - 1000) : int(count)]
            assert error == pytest.approx(np.sqrt(np.mean(recent**2)))
        assert len(statistics.curve) > 100
    assert NumberStatistics().describe() == {"rmse": None, "recent_rmse": None, "mae": None}
