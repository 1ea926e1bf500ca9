"""The results of a run, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from budgetron._base.run_trace import RunTrace
from budgetron._util.types import Codes, Floats, Ints, Labels

__all__ = ["Trace"]


@dataclass(frozen=True)
class Trace(RunTrace):
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
    sets : ndarray of shape (n_rounds, n_classes), bool, or None
        Whether each class was in the prediction set of the round, of a `ConformalClassifier`.
    covered : ndarray of shape (n_rounds,), bool, or None
        Whether the set of the round contained the label.
    """

    _error_label: ClassVar[str] = "error (%)"

    margins: Floats
    mistakes: NDArray[np.bool_]
    support_sizes: Ints
    codes: Codes
    classes: Labels
    ledger: Mapping[str, Floats | Ints] | None = None
    sets: NDArray[np.bool_] | None = None
    covered: NDArray[np.bool_] | None = None

    @property
    def predictions(self) -> Labels:
        """The class predicted in each round."""
        predicted: Labels = self.classes[self.codes]
        return predicted

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds."""
        return float(self.mistakes.mean())

    @property
    def error_curve(self) -> Floats:
        """The error rate up to each round."""
        curve: Floats = np.cumsum(self.mistakes) / np.arange(1, len(self) + 1)
        return curve

    @property
    def coverage(self) -> float:
        """The share of the rounds whose set contained the label; NaN without sets."""
        return float("nan") if self.covered is None else float(self.covered.mean())

    @property
    def mean_set_size(self) -> float:
        """The mean number of classes in a set; NaN without sets."""
        return float("nan") if self.sets is None else float(self.sets.sum(axis=1).mean())

    def __repr__(self) -> str:
        covered = "" if self.covered is None else f", coverage {self.coverage:.3f}"
        mistakes = f"{int(self.mistakes.sum())} mistakes, error rate {self.error_rate:.4f}"
        return f"Trace({len(self)} rounds, {mistakes}{covered}{self._supports_text()})"

    def _repr_html_(self) -> str:
        recent = self.mistakes[-1000:]
        rows = [
            ("rounds", f"{len(self):,}"),
            ("mistakes", f"{int(self.mistakes.sum()):,}"),
            ("error rate", f"{self.error_rate:.2%}" if len(self) else "-"),
            (f"error rate of the last {len(recent):,}", f"{recent.mean():.2%}" if len(self) else "-"),
            ("classes", f"{len(self.classes):,}"),
        ]
        if self.covered is not None:
            rows.append(("coverage of the sets", f"{self.coverage:.2%}" if len(self) else "-"))
            rows.append(("mean size of a set", f"{self.mean_set_size:.3g}" if len(self) else "-"))
        return self._html_table(rows)

    def _errors_so_far(self) -> Floats:
        return 100 * self.error_curve

    def _recent_errors(self, size: int) -> Floats:
        counts = np.concatenate([[0], np.cumsum(self.mistakes)])
        recent: Floats = 100 * (counts[size:] - counts[:-size]) / size
        return recent

    def _has_lower_plot(self) -> bool:
        return bool(self.support_sizes.any())

    def _draw_lower_plot(self, axis: Any, rounds: Ints) -> None:
        axis.plot(rounds, self.support_sizes, color="#009E73")
        axis.set(ylabel="supports", ylim=(0, None))
