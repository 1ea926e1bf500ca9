"""The results of a run of a regressor, round by round."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from budgetron._util.figures import finish_axis, new_figure
from budgetron._util.html import html_table
from budgetron._util.types import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RegressionTrace"]


@dataclass(frozen=True)
class RegressionTrace:
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
    """

    predictions: Floats
    targets: Floats
    support_sizes: Ints
    ledger: Mapping[str, Floats | Ints] | None = None
    intervals: Floats | None = None

    def __len__(self) -> int:
        return len(self.predictions)

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

    def __repr__(self) -> str:
        supports = f", {int(self.support_sizes[-1])} supports" if self.support_sizes.any() else ""
        covered = "" if self.intervals is None else f", coverage {self.coverage:.3f}"
        error = f"RMSE {self.rmse:.4g}" if len(self) else "no error"
        return f"RegressionTrace({len(self)} rounds, {error}{covered}{supports})"

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
        if self.support_sizes.any():
            rows.append(("supports", f"{int(self.support_sizes[-1]):,}"))
        if self.ledger is not None:
            rows.append(("ledger", ", ".join(self.ledger)))
        return html_table("RegressionTrace", rows)

    def plot(self, path: str | os.PathLike[str] | None = None, *, window: int = 1000) -> Figure:
        """Plot the error of all rounds so far and of recent rounds, and the residuals.

        Parameters
        ----------
        path : path-like, optional
            Where to save the plot.
        window : int, default=1000
            Number of recent rounds; at most a tenth of all rounds.

        Returns
        -------
        matplotlib.figure.Figure
            Notebooks show it.
        """
        if window < 1:
            raise ValueError(f"window must be at least 1; got {window}")
        figure, axes = new_figure(8, 6, 2, sharex=True)
        rounds = np.arange(1, len(self) + 1)
        axes[0].plot(rounds, self.error_curve, label="all rounds so far", color="#0072B2")
        size = max(1, min(window, len(self) // 10))
        sums = np.concatenate([[0.0], np.cumsum(self.residuals**2)])
        recent = np.sqrt(np.maximum(sums[size:] - sums[:-size], 0.0) / size)
        axes[0].plot(rounds[size - 1 :], recent, label=f"the last {size:,} rounds", color="#D55E00", lw=1)
        axes[0].set(ylabel="RMSE", ylim=(0, None))
        axes[0].legend(frameon=False)
        finish_axis(axes[0])
        axes[1].plot(rounds, self.residuals, ".", color="#009E73", ms=2)
        axes[1].set(ylabel="target - prediction")
        finish_axis(axes[1])
        axes[0].set_xlabel("")
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure
