"""The online SVM (Mohri et al., figure 8.11)."""

from numbers import Real
from typing import ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import PHI, TAU
from sklearn.utils._param_validation import Interval

from budgetron._base.initial_weights import INITIAL_WEIGHTS, InitialWeightsClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.parameters import Constraints
from budgetron._base.weighted_classifier import CLASS_WEIGHT, WeightedClassifier
from budgetron._util.types import Label


@cython.cclass
class OnlineSVMRule(LinearRule):
    """Take stochastic subgradient steps on 1/2 ||w||^2 + C hinge(y w . x)."""

    eta: cython.double
    C: cython.double

    def __init__(self, d: int, single: bool, intercept: bool, eta: float, C: float) -> None:
        LinearRule.__init__(
            self,
            d,
            single,
            ledger=("phi", "tau", "norm"),
            reach=eta * C / (1.0 - eta),
            intercept=intercept,
        )
        self.eta = eta
        self.C = C

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.y * self.margin != 1.0  # at exactly 1 the figure does not change w

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        keep: cython.double = 1.0 - self.eta
        # w - eta w + eta C y x; the last term first, because that step can fail
        if self.y * self.margin < 1.0:
            tau: cython.double = self.eta * self.C * self.importance
            self.note(TAU, tau)
            self.add(tau * self.y / keep)
        self.note(PHI, keep)
        self.shrink(keep)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class OnlineSVM(WeightedClassifier, InitialWeightsClassifier):
    """Stochastic gradient descent on the objective of the linear SVM, with a constant step.

    Use it on streams that drift: old examples lose weight at a constant rate. On streams that do not drift, a
    smaller `eta` gives a result closer to the solution of the SVM.

    Parameters
    ----------
    eta : float, default=0.01
        Step size, between 0 and 1. The weight of an example is halved about every log(2) / eta rounds.
    C : float, default=1.0
        Weight of the hinge loss of one example relative to 1/2 ||w||^2; larger values fit the examples more
        closely. In `sklearn.svm.LinearSVC`, C is the weight of the sum over all n examples, so its C
        corresponds to C / n here.
    class_weight : dict, default=None
        Weights of classes; classes that are not listed have weight 1. A row of weight w is learned with C w.
    initial_weights : tuple of float, default=None
        w_0, one number per feature, for two classes; by default zeros. The intercept starts at 0.
    fit_intercept : bool, default=True
        Whether the hyperplane may have an offset from the origin, which is learned as the weight of a
        constant feature of 1. It is a part of ||w||^2 and decays as the other weights do.

    Notes
    -----
    Cost per round: O(non-zeros), because the decay is one common factor. Memory: O(d). Every round shrinks
    the weights, except if y w . x is exactly 1. No mistake bound is known for a constant step, so that an
    intercept makes none invalid.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.11.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import OnlineSVM
    >>> X, y = load_digits(return_X_y=True)
    >>> OnlineSVM(eta=0.001).progressive_fit(X / 16, y % 2)
    Trace(1797 rounds, 331 mistakes, error rate 0.1842)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        CLASS_WEIGHT
        | INITIAL_WEIGHTS
        | FIT_INTERCEPT
        | {
            "eta": [Interval(Real, 0.0, 1.0, closed="neither")],
            "C": [Interval(Real, 0.0, None, closed="neither")],
        }
    )

    def __init__(
        self,
        eta: float = 0.01,
        C: float = 1.0,
        *,
        class_weight: dict[Label, float] | None = None,
        initial_weights: tuple[float, ...] | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.eta = eta
        self.C = C
        self.class_weight = class_weight
        self.initial_weights = initial_weights
        self.fit_intercept = fit_intercept

    def _rule(self, d: int, single: bool) -> OnlineSVMRule:
        return OnlineSVMRule(d, single, self.fit_intercept, self.eta, self.C)
