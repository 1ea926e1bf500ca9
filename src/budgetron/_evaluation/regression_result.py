"""The results of one regressor on one stream. Their size does not depend on the length of the stream."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from math import inf, isinf, nan, sqrt
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.regressor import Predicted, Regressor
from budgetron._evaluation.run_result import Curve, RunResult
from budgetron._util.types import Floats, Ints

__all__ = ["RegressionResult", "RegressionResultState", "error_text"]

# The names of the numbers in a summary
FIGURES = (
    "rounds",
    "rmse",
    "mae",
    "window_rmse",
    "coverage",
    "window_width",
    "supports",
    "nbytes",
    "seconds",
    "rounds_per_second",
)
COUNTS = ("round", "supports", "nbytes")  # columns of the curve that are integers
VALUES = ("rmse", "window_rmse", "window_coverage", "prediction", "residual")


def error_text(value: float) -> str:
    """Format an error with about four digits.

    Examples
    --------
    >>> error_text(1234.5678), error_text(0.0123456)
    ('1,235', '0.01235')
    """
    return f"{value:,.0f}" if 1000 <= value < 1e7 else f"{value:.4g}"


class RegressionResultState(TypedDict):
    """The state of a `RegressionResult` without its model, as `budgetron.save` stores it in a checkpoint."""

    sums: Floats
    baselines: Floats
    recent_targets: Floats
    supports: int
    seconds: float
    curve: Curve
    _step: int
    _recent: Floats
    _covered: NDArray[np.bool_]
    _widths: Floats


@dataclass(repr=False)
class RegressionResult(RunResult):
    """How a regressor did on a stream.

    Attributes
    ----------
    name : str
    model : regressor
        The learner after the last round.
    window : int
    delay : int
        How many rounds late targets arrived; the baselines use no others.
    supports : int
        Number of supports at the end.
    seconds : float
        Time spent on predicting and learning.
    curve : dict of str to ndarray
        Values at 500 to 1000 evenly spaced rounds (at all rounds of a shorter stream): ``round``; after this
        round ``rmse``, and ``window_rmse`` and ``window_coverage`` of the last `window` rounds (NaN without
        intervals); ``prediction`` and ``residual`` (target minus prediction) of this round; ``supports`` and
        ``nbytes`` after it, the last at the end of the block of rows.
    """

    name: str
    model: Regressor
    window: int
    delay: int = 0
    points: int = 500
    supports: int = 0
    seconds: float = 0.0
    curve: Curve = field(init=False)
    _step: int = 1
    # Over all rounds: their number; squared and absolute errors; targets inside of their intervals, and the
    # number of intervals
    _sums: Floats = field(default_factory=lambda: np.zeros(5), repr=False)
    # Squared errors of the mean and of the last target; number and sum of the targets that are known
    _baselines: Floats = field(default_factory=lambda: np.zeros(4), repr=False)
    # The last target that is known, if there is one, and those that are not known yet
    _recent_targets: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    _recent: Floats = field(default_factory=lambda: np.zeros(0), repr=False)
    _covered: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_), repr=False)
    _widths: Floats = field(default_factory=lambda: np.zeros(0), repr=False)

    def __post_init__(self) -> None:
        counts: Curve = {name: np.zeros(0, np.int64) for name in COUNTS}
        self.curve = counts | {name: np.zeros(0) for name in VALUES}

    # ------------------------------------------------------------------ figures

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return int(self._sums[0])

    @property
    def loss(self) -> float:
        """The sum of the squared errors."""
        return float(self._sums[1])

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return sqrt(self.loss / max(1, self.rounds))

    @property
    def mae(self) -> float:
        """The mean absolute error."""
        return float(self._sums[2]) / max(1, self.rounds)

    @property
    def window_rmse(self) -> float:
        """The root of the mean squared error of the last `window` rounds."""
        return float(np.sqrt(self._recent.mean())) if len(self._recent) else 0.0

    @property
    def coverage(self) -> float | None:
        """The share of the targets inside of their intervals; None without intervals."""
        return float(self._sums[3] / self._sums[4]) if self._sums[4] else None

    @property
    def window_width(self) -> float | None:
        """The median width of the intervals of the last `window` rounds; None without intervals.

        An empty interval has the width 0.
        """
        return float(np.median(np.nan_to_num(self._widths, posinf=inf))) if len(self._widths) else None

    @property
    def level(self) -> float | None:
        """The share of the targets that the intervals should contain; None if it is not known."""
        parameters = self.model.get_params(deep=False)
        found = parameters.get("coverage", parameters.get("level"))
        return found if isinstance(found, float) else None

    @property
    def baselines(self) -> dict[str, float]:
        """The RMSE of predicting the mean of all known targets, and of predicting the last known one.

        Before a target is known, they predict 0.
        """
        mean, last = np.sqrt(self._baselines[:2] / max(1, self.rounds)).tolist()
        return {"mean": mean, "last": last}

    def summary(self) -> dict[str, str | int | float | None]:
        """Return the figures of the whole run by name, as plain numbers."""
        return {"learner": self.name} | {name: getattr(self, name) for name in FIGURES}

    def to_dict(self) -> dict[str, object]:
        """Return everything but the model, as plain numbers and lists.

        NaN in curves, and an infinite width, are None.
        """
        width = self.window_width
        return self.summary() | {
            "window_width": None if width is None or isinf(width) else width,
            "parameters": self.parameters(),
            "window": self.window,
            "level": self.level,
            "baselines": self.baselines,
            "curve": {name: _plain(values) for name, values in self.curve.items()},
        }

    def __repr__(self) -> str:
        return f"RegressionResult({self.name}, {self.rounds} rounds, RMSE {self.rmse:.4g})"

    # ------------------------------------------------------------------ recording

    def state(self) -> RegressionResultState:
        """Return a copy of everything that `record` changes."""
        state: RegressionResultState = {
            "sums": self._sums,
            "baselines": self._baselines,
            "recent_targets": self._recent_targets,
            "supports": self.supports,
            "seconds": self.seconds,
            "curve": self.curve,
            "_step": self._step,
            "_recent": self._recent,
            "_covered": self._covered,
            "_widths": self._widths,
        }
        return deepcopy(state)

    def restore(self, state: RegressionResultState) -> None:
        """Continue from the `state` of another result."""
        if state["sums"].shape != self._sums.shape or set(state["curve"]) != set(self.curve):
            raise ValueError("the saved results are not those of a regressor")
        self._sums, self._baselines, self.curve = state["sums"], state["baselines"], state["curve"]
        self._recent_targets, self._covered = state["recent_targets"], state["_covered"]
        self.supports, self.seconds = state["supports"], state["seconds"]
        self._step, self._recent, self._widths = state["_step"], state["_recent"], state["_widths"]

    def record(self, y: Floats, played: Predicted, seconds: float) -> None:
        """Add the rounds of a block: their targets, what was predicted, and the time."""
        before, residuals = self.rounds, y - played.predictions
        squares, covered = residuals**2, np.zeros(0, np.bool_)
        additions = [np.ones(len(y)), squares, np.abs(residuals)]
        if played.intervals is not None:
            low, high = played.intervals.T
            covered = (low <= y) & (y <= high)
            additions += [covered.astype(float), np.ones(len(y))]
            self._widths = np.concatenate([self._widths, high - low])[-self.window :]
        totals = [_running(total, values) for total, values in zip(self._sums, additions, strict=False)]
        self._sums[: len(totals)] = [values[-1] for values in totals]
        self._record_baselines(y)
        self.seconds += seconds
        self.supports = int(played.supports[-1]) if len(y) else self.supports
        recent, in_interval = (
            np.concatenate([self._recent, squares]),
            np.concatenate([self._covered, covered]),
        )
        points = self._new_points(before, len(y))
        new: Curve = {
            "round": before + points + 1,
            "rmse": np.sqrt(totals[1][points + 1] / (before + points + 1)),
            "window_rmse": np.sqrt(_window_means(recent, points, len(y), self.window)),
            "window_coverage": _window_means(in_interval, points, len(y), self.window),
            "prediction": played.predictions[points],
            "residual": residuals[points],
            "supports": played.supports[points],
            "nbytes": np.full(len(points), self.nbytes),
        }
        self._recent, self._covered = recent[-self.window :], in_interval[-self.window :]
        self._extend(new)

    def _record_baselines(self, y: Floats) -> None:
        """Add the errors of predicting the mean of the known targets, and the last known one."""
        n, had = len(y), len(self._recent_targets)
        count, total = self._baselines[2:]
        first = 1 if count else 0  # of `targets`, those from here on are not known before this block
        targets = np.concatenate([self._recent_targets, y])
        # After round t of this block, this number of `targets` is known.
        ends = np.maximum(np.arange(1, n + 1) + had - self.delay, first)
        sums = _running(total, targets[first:])
        known = np.concatenate([[first], ends[:-1]]) - first  # of the new ones, before each round
        counts, means = count + known, np.zeros(n)
        np.divide(sums[known], counts, out=means, where=counts > 0)
        last = np.where(counts > 0, targets[np.maximum(known + first - 1, 0)], 0.0) if n else means
        for i, predictions in enumerate((means, last)):
            self._baselines[i] = _running(self._baselines[i], (y - predictions) ** 2)[-1]
        if n:
            new = int(ends[-1]) - first
            self._baselines[2:] = count + new, sums[new]
            self._recent_targets = targets[max(0, int(ends[-1]) - 1) :] if count + new else targets


def _running(total: float, values: Floats) -> Floats:
    """Return a total before and after each value, added one by one, so that blocks do not matter."""
    sums: Floats = np.cumsum(np.concatenate([[total], values]))
    return sums


def _window_means(values: Floats | NDArray[np.bool_], points: Ints, block: int, window: int) -> Floats:
    """Return the mean of the last `window` values at some rounds of a block; NaN if there are none."""
    ends = points + 1 + len(values) - block
    # Not by differences of sums: after a huge error, they would have no correct digits.
    return np.array([values[max(0, end - window) : end].mean() if end > 0 else nan for end in ends.tolist()])


def _plain(values: NDArray[np.int64] | NDArray[np.float64]) -> list[int | float | None]:
    return [None if value != value else value for value in values.tolist()]
