"""The results of a run, round by round."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from budgetron._util.figures import finish_axis, new_figure
from budgetron._util.html import html_table
from budgetron._util.types import Codes, Floats, Ints, Labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Trace"]


@dataclass(frozen=True)
class Trace:
    """The rounds of one `progressive_fit`.

    Attributes
    ----------
    margins : ndarray of shape (n_rounds,) or (n_rounds, n_classes)
        f_t(x_t) before the label was seen; one column per class if there are more than two.
    mistakes : ndarray of shape (n_rounds,), bool
        Whether y f(x) <= 0. With more than two classes: whether the margin of the
        right class was not above all others.
    support_sizes : ndarray of shape (n_rounds,)
        Supports stored after the round, over all classes; linear learners store none.
    predictions : ndarray of shape (n_rounds,)
        The class predicted in each round, before the label was seen. At an exact tie (a margin of 0, or two
        equal largest margins) the first class is predicted, as `predict` does. The round is a mistake
        whatever the label, so that a mistake may have the right prediction.
    codes : ndarray of shape (n_rounds,)
        The predictions as indices into `classes`.
    classes : ndarray of shape (n_classes,)
        The classes at the time of the run.
    ledger : dict of str to ndarray, or None
        The quantities of the algorithm's proof, one entry per round (and class, if
        there are more than two), NaN where nothing happened:

        - ``phi``: factor by which f was shrunk; ``psi``: damage of the removal (Forgetron paper, eq. 15);
        - ``Q``: sum of psi before the round, so that Q + psi is the sum after it;
        - ``removed``: round in which the support removed now was added, -1 for none;
        - ``delta``: distance ||delta_t|| from the span of the supports; ``threshold``: the value
          it was compared with;
        - ``tau``: step size; ``beta``: progress on a margin error (Projectron paper, eq. 16);
        - ``variance``: variance of the margin under the learner's Gaussian;
        - ``grad_error``: error in the gradient (Sutskever's paper, section 3.2);
        - ``Z``: the sum that Winnow's new weights are divided by;
        - ``step_norm``: ||f'||, the norm after the example was added, before shrinking and removal;
        - ``loss``: loss of the vote of `BudgetClassifier`; ``weight``: weight of the row;
          ``expert_losses``: the losses, 0 or 1, of its combiners and experts, in the order of `experts_`;
        - ``norm``: ||f|| after the round.
    """

    margins: Floats
    mistakes: NDArray[np.bool_]
    support_sizes: Ints
    codes: Codes
    classes: Labels
    ledger: Mapping[str, Floats | Ints] | None = None

    @property
    def predictions(self) -> Labels:
        """The class predicted in each round."""
        predicted: Labels = self.classes[self.codes]
        return predicted

    def __len__(self) -> int:
        return len(self.mistakes)

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds."""
        return float(self.mistakes.mean())

    @property
    def error_curve(self) -> Floats:
        """The error rate up to each round."""
        curve: Floats = np.cumsum(self.mistakes) / np.arange(1, len(self) + 1)
        return curve

    def __repr__(self) -> str:
        supports = f", {int(self.support_sizes[-1])} supports" if self.support_sizes.any() else ""
        mistakes = int(self.mistakes.sum())
        return f"Trace({len(self)} rounds, {mistakes} mistakes, error rate {self.error_rate:.4f}{supports})"

    def _repr_html_(self) -> str:
        recent = self.mistakes[-1000:]
        rows = [
            ("rounds", f"{len(self):,}"),
            ("mistakes", f"{int(self.mistakes.sum()):,}"),
            ("error rate", f"{self.error_rate:.2%}" if len(self) else "-"),
            (f"error rate of the last {len(recent):,}", f"{recent.mean():.2%}" if len(self) else "-"),
            ("classes", f"{len(self.classes):,}"),
        ]
        if self.support_sizes.any():
            rows.append(("supports", f"{int(self.support_sizes[-1]):,}"))
        if self.ledger is not None:
            rows.append(("ledger", ", ".join(self.ledger)))
        return html_table("Trace", rows)

    def plot(self, path: str | os.PathLike[str] | None = None, *, window: int = 1000) -> Figure:
        """Plot the error of all rounds so far and of recent rounds, and the supports if there are any.

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
        with_supports = bool(self.support_sizes.any())
        figure, axes = new_figure(8, 6 if with_supports else 4, 1 + with_supports, sharex=True)
        rounds = np.arange(1, len(self) + 1)
        axes[0].plot(rounds, 100 * self.error_curve, label="all rounds so far", color="#0072B2")
        size = max(1, min(window, len(self) // 10))
        counts = np.concatenate([[0], np.cumsum(self.mistakes)])
        recent = 100 * (counts[size:] - counts[:-size]) / size
        axes[0].plot(rounds[size - 1 :], recent, label=f"the last {size:,} rounds", color="#D55E00", lw=1)
        axes[0].set(ylabel="error (%)", ylim=(0, None))
        axes[0].legend(frameon=False)
        finish_axis(axes[0])
        if with_supports:
            axes[1].plot(rounds, self.support_sizes, color="#009E73")
            axes[1].set(ylabel="supports", ylim=(0, None))
            finish_axis(axes[1])
            axes[0].set_xlabel("")
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure
