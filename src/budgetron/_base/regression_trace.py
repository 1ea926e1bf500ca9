"""The results of a run of a regressor, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from budgetron._base.run_trace import RunTrace
from budgetron._util.types import Floats, Ints

__all__ = ["RegressionTrace"]


@dataclass(frozen=True)
class RegressionTrace(RunTrace):
    """The rounds of one `progressive_fit` of a regressor.

    Attributes
    ----------
    predictions : ndarray of shape (n_rounds,)
        The prediction of each round, before the target was seen.
    targets : ndarray of shape (n_rounds,)
    support_sizes : ndarray of shape (n_rounds,)
        Supports stored after the round; linear learners store none.
    ledger : dict of str to ndarray, or None
        Quantities of the algorithm, one entry per round; NaN where nothing happened:

        - ``delta``: distance of the row's image from the span of the supports;
        - ``variance``: variance of f(x) under the learner's Gaussian;
        - ``tau``: size of the step;
        - ``removed``: round in which the support removed now was added, -1 for none;
        - ``expert_losses``: squared errors of the experts of `BudgetRegressor`; ``loss``: that of the
          combination;
        - ``norm``: ||f|| after the round.
    intervals : ndarray of shape (n_rounds, 2), or None
        The prediction interval of each round, before the target was seen, of learners that have intervals.
        Two NaN are an empty interval.
    """

    _error_label: ClassVar[str] = "RMSE"

    predictions: Floats
    targets: Floats
    support_sizes: Ints
    ledger: Mapping[str, Floats | Ints] | None = None
    intervals: Floats | None = None

    @property
    def residuals(self) -> Floats:
        """Target minus prediction, for each round."""
        residuals: Floats = self.targets - self.predictions
        return residuals

    @property
    def rmse(self) -> float:
        """The root of the mean squared error."""
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def mae(self) -> float:
        """The mean absolute error."""
        return float(np.mean(np.abs(self.residuals)))

    @property
    def error_curve(self) -> Floats:
        """The root of the mean squared error up to each round."""
        curve: Floats = np.sqrt(np.cumsum(self.residuals**2) / np.arange(1, len(self) + 1))
        return curve

    @property
    def coverage(self) -> float:
        """The share of the targets inside of their intervals; NaN without intervals."""
        if self.intervals is None:
            return float("nan")
        low, high = self.intervals.T
        return float(np.mean((low <= self.targets) & (self.targets <= high)))

    @property
    def median_width(self) -> float:
        """The median of the widths of the intervals, of which some may be infinite; NaN without intervals."""
        if self.intervals is None:
            return float("nan")
        low, high = self.intervals.T
        return float(np.median(np.nan_to_num(high - low, nan=0.0, posinf=np.inf)))

    def __repr__(self) -> str:
        covered = "" if self.intervals is None else f", coverage {self.coverage:.3f}"
        error = f"RMSE {self.rmse:.4g}" if len(self) else "no error"
        return f"RegressionTrace({len(self)} rounds, {error}{covered}{self._supports_text()})"

    def _repr_html_(self) -> str:
        rows = [("rounds", f"{len(self):,}")]
        if len(self):
            recent = self.residuals[-1000:]
            rows += [
                ("RMSE", f"{self.rmse:.4g}"),
                (f"RMSE of the last {len(recent):,}", f"{np.sqrt(np.mean(recent**2)):.4g}"),
                ("mean absolute error", f"{self.mae:.4g}"),
            ]
        if self.intervals is not None:
            rows.append(("coverage of the intervals", f"{self.coverage:.2%}"))
        return self._html_table(rows)

    def _errors_so_far(self) -> Floats:
        return self.error_curve

    def _recent_errors(self, size: int) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(self.residuals**2)])
        recent: Floats = np.sqrt(np.maximum(sums[size:] - sums[:-size], 0.0) / size)
        return recent

    def _has_lower_plot(self) -> bool:
        return True

    def _draw_lower_plot(self, axis: Any, rounds: Ints) -> None:
        axis.plot(rounds, self.residuals, ".", color="#009E73", ms=2)
        axis.set(ylabel="target - prediction")
