"""The Perceptron: 004 figure 8.6, and 001 with its normalized form."""

from numbers import Real
from typing import Any, ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from cython.cimports.libc.math import sqrt
from sklearn.utils._param_validation import Interval

from budgetron._base.linear_classifier import LinearClassifier


@cython.cclass
class PerceptronRule(LinearRule):
    """On a mistake, w += eta y x, or eta y times the unit vector of x."""

    eta: cython.double
    normalize: cython.bint

    def __init__(self, d: int, single: bool, eta: float, normalize: bool) -> None:
        LinearRule.__init__(self, d, single, reach=eta)
        self.eta = eta
        self.normalize = normalize

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        tau: cython.double = self.eta
        if self.normalize:  # a row of zeros has no direction, and moves nothing
            tau = self.eta / sqrt(self.square) if self.square > 0.0 else 0.0
        self.note(TAU, tau)
        self.add(tau * self.y)
        return 1


@cython.annotation_typing(False)  # here they are for readers
class Perceptron(LinearClassifier):
    """The Perceptron: on a mistake, add the example to the weights.

    The simplest learner and the fastest, with the simplest bound: at most (r / rho)^2 mistakes
    if all rows lie within r of the origin and some hyperplane through it separates them by
    rho. On noisy data prefer `VotedPerceptron`, `PassiveAggressive` or `AROW`.

    Parameters
    ----------
    eta : float, default=1.0
        Step size. It scales the weights and changes no prediction.
    normalize : bool, default=False
        Whether to step along x / ||x|| instead of x, so that r = 1 in the bound. Choose it
        when rows differ much in length.

    Notes
    -----
    Cost per round: O(non-zeros); memory O(d). The hyperplane passes through the origin: append a
    constant feature if it should not.

    001 writes the test for a mistake as y w . x < 0, under which w = 0 would never learn; it
    is y w . x <= 0, as in 004.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "eta": [Interval(Real, 0.0, None, closed="neither")],
        "normalize": ["boolean"],
    }

    def __init__(self, eta: float = 1.0, normalize: bool = False) -> None:
        self.eta = eta
        self.normalize = normalize

    def _rule(self, d: int, single: bool) -> PerceptronRule:
        return PerceptronRule(d, single, self.eta, self.normalize)
