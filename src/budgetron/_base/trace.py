"""What a run leaves behind, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Trace:
    """The rounds of one `progressive_fit`.

    Attributes
    ----------
    margins : ndarray of shape (n_rounds,) or (n_rounds, n_classes)
        f_t(x_t) before the label was seen; one column a class if there are more than two.
    mistakes : ndarray of shape (n_rounds,), bool
        Whether y f(x) <= 0. With more than two classes: whether the margin of the
        right class was not above all others.
    support_sizes : ndarray of shape (n_rounds,)
        Supports stored after the round, over all classes; linear learners store none.
    ledger : dict of str to ndarray, or None
        The quantities of the algorithm's proof, one entry per round (and class, if
        there are more than two), NaN where nothing happened:

        - ``phi``: factor by which f was shrunk; ``psi``: damage of the removal (003 eq. 15);
        - ``Q``: sum of psi before the round, so that Q + psi is the sum after it;
        - ``removed``: round in which the support removed now was added, -1 for none;
        - ``delta``: distance ||delta_t|| from the span of the supports; ``threshold``: what
          it was compared with;
        - ``tau``: step size; ``beta``: progress on a margin error (002 eq. 16);
        - ``grad_error``: error in the gradient (000 section 3.2);
        - ``Z``: the sum that Winnow's new weights are divided by;
        - ``norm``: ||f|| after the round.
    """

    margins: NDArray[np.float64]
    mistakes: NDArray[np.bool_]
    support_sizes: NDArray[np.int64]
    ledger: dict[str, NDArray[Any]] | None = None

    def __len__(self) -> int:
        return len(self.mistakes)

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds."""
        return float(self.mistakes.mean())

    @property
    def error_curve(self) -> NDArray[np.float64]:
        """The error rate up to each round."""
        curve: NDArray[np.float64] = np.cumsum(self.mistakes) / np.arange(1, len(self) + 1)
        return curve

    def __repr__(self) -> str:
        supports = f", {int(self.support_sizes[-1])} supports" if self.support_sizes.any() else ""
        mistakes = int(self.mistakes.sum())
        return f"Trace({len(self)} rounds, {mistakes} mistakes, error rate {self.error_rate:.4f}{supports})"
