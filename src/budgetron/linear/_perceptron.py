"""The Perceptron (Mohri et al., figure 8.6), and its normalized form (CS269 lecture notes)."""

from numbers import Real
from typing import ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from cython.cimports.libc.math import sqrt
from sklearn.utils._param_validation import Interval

from budgetron._base.initial_weights import INITIAL_WEIGHTS, InitialWeightsClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, perceptron_theorems
from budgetron._core.kernel import Kernel


@cython.cclass
class PerceptronRule(LinearRule):
    """On a mistake, add eta y x to the weights, or eta y times the unit vector of x."""

    eta: cython.double
    normalize: cython.bint

    def __init__(self, d: int, single: bool, intercept: bool, eta: float, normalize: bool) -> None:
        LinearRule.__init__(self, d, single, reach=eta, intercept=intercept)
        self.eta = eta
        self.normalize = normalize

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        tau: cython.double = self.eta
        if self.normalize:  # a row of zeros has no direction and changes nothing
            tau = self.eta / sqrt(self.square) if self.square > 0.0 else 0.0
        self.note(TAU, tau)
        self.add(tau * self.y)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class Perceptron(InitialWeightsClassifier):
    """The Perceptron: on a mistake, add the example, times its label, to the weights.

    Use it as a baseline, and where speed matters most: it is the simplest and the fastest learner. On noisy
    data use `VotedPerceptron`, `PassiveAggressive` or `AROW`.

    Parameters
    ----------
    eta : float, default=1.0
        Step size. It scales the weights and does not change predictions.
    normalize : bool, default=False
        Whether to step along x / ||x|| instead of x, so that r = 1 in the bound below. Use it if rows differ
        much in length.
    initial_weights : tuple of float, default=None
        w_0, one number per feature, for two classes; by default zeros. The intercept starts at 0. The bounds
        below assume zeros.
    fit_intercept : bool, default=True
        Whether the hyperplane may have an offset from the origin, which is learned as the weight of a
        constant feature of 1. With False this is the Perceptron of the figure. With `normalize`, (1, x) is
        normalized. Then multiplying a row by a number changes its prediction; use False if it should not.

    Notes
    -----
    Cost per round: O(non-zeros). Memory: O(d).

    The number of mistakes is at most (r / rho)^2 if all rows lie within r of the origin and some hyperplane
    through the origin separates them with margin rho (Mohri et al., Theorem 8.8). For rows that cannot be
    separated it is at most ||g||^2 + 2 * (sum of hinge losses of g) for every g, if r <= 1 (Forgetron paper,
    Theorem 1). With an intercept, both hold for rows (1, x): r^2 is one more, and the competitor has an
    intercept, which is a part of its norm.

    The CS269 notes define a mistake as y w . x < 0, with which w = 0 would never learn. Here it is
    y w . x <= 0, as in Mohri et al.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.6 and
    Theorem 8.8. CS269 lecture notes on the Perceptron (2010).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import Perceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Perceptron()
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 255 mistakes, error rate 0.1419)
    >>> model.coef_.shape
    (1, 64)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        INITIAL_WEIGHTS
        | FIT_INTERCEPT
        | {
            "eta": [Interval(Real, 0.0, None, closed="neither")],
            "normalize": ["boolean"],
        }
    )

    def __init__(
        self,
        eta: float = 1.0,
        normalize: bool = False,
        *,
        initial_weights: tuple[float, ...] | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.eta = eta
        self.normalize = normalize
        self.initial_weights = initial_weights
        self.fit_intercept = fit_intercept

    def _rule(self, d: int, single: bool) -> PerceptronRule:
        return PerceptronRule(d, single, self.fit_intercept, self.eta, self.normalize)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return perceptron_theorems(radius, self.updates_) if self.initial_weights is None else []

    def _competitor_kernel(self) -> Kernel:
        return Kernel("linear", normalized=self.normalize)
