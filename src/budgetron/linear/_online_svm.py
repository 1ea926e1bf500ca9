"""The on-line SVM: 004 figure 8.11."""

from numbers import Real
from typing import Any, ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import PHI, TAU
from sklearn.utils._param_validation import Interval

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.weighted_classifier import CLASS_WEIGHT, WeightedClassifier


@cython.cclass
class OnlineSVMRule(LinearRule):
    """Stochastic subgradient steps on 1/2 ||w||^2 + C hinge(y w . x)."""

    eta: cython.double
    C: cython.double

    def __init__(self, d: int, single: bool, eta: float, C: float) -> None:
        LinearRule.__init__(self, d, single, ledger=("phi", "tau", "norm"), reach=eta * C / (1.0 - eta))
        self.eta = eta
        self.C = C

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_update(self) -> cython.bint:
        return self.y * self.margin != 1.0  # exactly at 1 the figure leaves w as it is

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        keep: cython.double = 1.0 - self.eta
        # w - eta w + eta C y x, the last first, for it can fail
        if self.y * self.margin < 1.0:
            tau: cython.double = self.eta * self.C * self.importance
            self.note(TAU, tau)
            self.add(tau * self.y / keep)
        self.note(PHI, keep)
        self.shrink(keep)
        return 1


@cython.annotation_typing(False)  # here they are for readers
class OnlineSVM(WeightedClassifier, LinearClassifier):
    """Stochastic gradient descent on the linear SVM, with a constant step.

    Old examples fade at a constant rate, so that it follows a stream that drifts; on one
    that does not, a smaller `eta` ends closer to the SVM's solution.

    Parameters
    ----------
    eta : float, default=0.01
        Step size, between 0 and 1. An example's weight is halved every log(2) / eta rounds,
        about: choose it by how far back the stream should be remembered.
    C : float, default=1.0
        Weight of the hinge loss beside 1/2 ||w||^2, for each example by itself: larger
        fits closer, as in `sklearn.svm.LinearSVC`, where it weighs the sum over all
        examples. With n of them, its C is ours divided by n.
    class_weight : dict, default=None
        Weights of classes, 1 for those that are not named. A row of weight w is learned with C w.

    Notes
    -----
    Cost per round: O(non-zeros), for the decay is one common factor; memory O(d). Every round
    shrinks the weights, except where y w . x is exactly 1. The hyperplane passes through
    the origin.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.11.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import OnlineSVM
    >>> X, y = load_digits(return_X_y=True)
    >>> OnlineSVM(eta=0.001).progressive_fit(X / 16, y % 2)
    Trace(1797 rounds, 325 mistakes, error rate 0.1809)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CLASS_WEIGHT | {
        "eta": [Interval(Real, 0.0, 1.0, closed="neither")],
        "C": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self, eta: float = 0.01, C: float = 1.0, *, class_weight: dict[Any, float] | None = None
    ) -> None:
        self.eta = eta
        self.C = C
        self.class_weight = class_weight

    def _rule(self, d: int, single: bool) -> OnlineSVMRule:
        return OnlineSVMRule(d, single, self.eta, self.C)
