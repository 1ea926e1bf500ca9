"""What the traces of classifiers and of regressors have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from budgetron._util.figures import finish_axis, new_figure
from budgetron._util.html import html_table
from budgetron._util.types import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RunTrace"]


class RunTrace:
    """The rounds of one `progressive_fit`: how they are described and plotted.

    A subclass defines the error of the rounds, and what is plotted below it.
    """

    # The label of the error in plots.
    _error_label: ClassVar[str]

    support_sizes: Ints
    ledger: Mapping[str, Floats | Ints] | None

    def __len__(self) -> int:
        return len(self.support_sizes)

    def _errors_so_far(self) -> Floats:
        """Return the error up to each round, as it is plotted."""
        raise NotImplementedError(f"{type(self).__name__} must define _errors_so_far")

    def _recent_errors(self, size: int) -> Floats:
        """Return the error of each `size` consecutive rounds, as it is plotted."""
        raise NotImplementedError(f"{type(self).__name__} must define _recent_errors")

    def _has_lower_plot(self) -> bool:
        """Return whether there is a plot below that of the error."""
        raise NotImplementedError(f"{type(self).__name__} must define _has_lower_plot")

    def _draw_lower_plot(self, axis: Any, rounds: Ints) -> None:
        """Draw the plot below that of the error."""
        raise NotImplementedError(f"{type(self).__name__} must define _draw_lower_plot")

    def _supports_text(self) -> str:
        """Return the number of supports for `repr`; empty if none were stored."""
        return f", {int(self.support_sizes[-1])} supports" if self.support_sizes.any() else ""

    def _html_table(self, rows: list[tuple[str, str]]) -> str:
        """Return these rows, the supports and the ledger as a table."""
        if self.support_sizes.any():
            rows.append(("supports", f"{int(self.support_sizes[-1]):,}"))
        if self.ledger is not None:
            rows.append(("ledger", ", ".join(self.ledger)))
        return html_table(type(self).__name__, rows)

    def plot(self, path: str | os.PathLike[str] | None = None, *, window: int = 1000) -> Figure:
        """Plot the error of all rounds so far and of recent rounds.

        Below it are the supports of a classifier, if it has any, or the residuals of a regressor.

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
        two = self._has_lower_plot()
        figure, axes = new_figure(8, 6 if two else 4, 1 + two, sharex=True)
        rounds = np.arange(1, len(self) + 1)
        axes[0].plot(rounds, self._errors_so_far(), label="all rounds so far", color="#0072B2")
        size = max(1, min(window, len(self) // 10))
        recent = self._recent_errors(size)
        axes[0].plot(rounds[size - 1 :], recent, label=f"the last {size:,} rounds", color="#D55E00", lw=1)
        axes[0].set(ylabel=self._error_label, ylim=(0, None))
        axes[0].legend(frameon=False)
        finish_axis(axes[0])
        if two:
            self._draw_lower_plot(axes[1], rounds)
            finish_axis(axes[1])
            axes[0].set_xlabel("")
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure
