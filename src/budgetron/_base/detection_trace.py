"""The results of a run of a detector, round by round."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from budgetron._util.figures import finish_axis, new_figure
from budgetron._util.html import html_table
from budgetron._util.types import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DetectionTrace"]


@dataclass(frozen=True)
class DetectionTrace:
    """The rounds of one `progressive_fit` of a detector.

    Attributes
    ----------
    scores : ndarray of shape (n_rounds,)
        The score of each row before it was learned. Low scores are unusual.
    offsets : ndarray of shape (n_rounds,)
        The threshold of each round. -inf: no row is an alarm, because there were too few rounds yet.
    support_sizes : ndarray of shape (n_rounds,)
        Supports stored after the round.
    ledger : dict of str to ndarray, or None
        Quantities of the algorithm, one entry per round; NaN where nothing happened:

        - ``threshold``: rho of `NormaDetector` before the round;
        - ``delta``: distance of the row's image from the span of the supports;
        - ``variance``: variance of f(x) under the learner's Gaussian;
        - ``tau``: size of the step;
        - ``removed``: round in which the support removed now was added, -1 for none;
        - ``norm``: ||f|| after the round.
    """

    scores: Floats
    offsets: Floats
    support_sizes: Ints
    ledger: Mapping[str, Floats | Ints] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def alarms(self) -> NDArray[np.bool_]:
        """Whether each row was an alarm: its score was below the threshold."""
        alarms: NDArray[np.bool_] = self.scores < self.offsets
        return alarms

    @property
    def alarm_rate(self) -> float:
        """The share of the rows that were alarms; NaN without rows."""
        return float(self.alarms.mean()) if len(self) else float("nan")

    def __repr__(self) -> str:
        supports = f", {int(self.support_sizes[-1])} supports" if len(self) else ""
        return f"DetectionTrace({len(self)} rounds, {int(self.alarms.sum())} alarms{supports})"

    def _repr_html_(self) -> str:
        rows = [("rounds", f"{len(self):,}"), ("alarms", f"{int(self.alarms.sum()):,}")]
        if len(self):
            recent = self.alarms[-1000:]
            rows += [
                ("share of alarms", f"{self.alarm_rate:.2%}"),
                (f"share of alarms of the last {len(recent):,}", f"{recent.mean():.2%}"),
                ("supports", f"{int(self.support_sizes[-1]):,}"),
            ]
        if self.ledger is not None:
            rows.append(("ledger", ", ".join(self.ledger)))
        return html_table("DetectionTrace", rows)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the scores and the threshold, and the share of alarms up to each round.

        Parameters
        ----------
        path : path-like, optional
            Where to save the plot.

        Returns
        -------
        matplotlib.figure.Figure
            Notebooks show it.
        """
        figure, axes = new_figure(8, 6, 2, sharex=True)
        rounds = np.arange(1, len(self) + 1)
        alarms = self.alarms
        axes[0].plot(rounds, self.scores, ".", color="#0072B2", ms=2, label="score")
        axes[0].plot(rounds[alarms], self.scores[alarms], ".", color="#D55E00", ms=6, label="alarm")
        finite = np.where(np.isfinite(self.offsets), self.offsets, np.nan)
        axes[0].plot(rounds, finite, color="#000000", lw=1, label="threshold")
        axes[0].set(ylabel="score")
        axes[0].legend(frameon=False)
        finish_axis(axes[0])
        axes[1].plot(rounds, np.cumsum(alarms) / rounds, color="#009E73")
        axes[1].set(ylabel="share of alarms so far", ylim=(0, None))
        finish_axis(axes[1])
        axes[0].set_xlabel("")
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure
