"""AROW, adaptive regularization of weights: a second-order learner, beyond the five papers."""

from numbers import Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.covariance import Covariance
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.linear_classifier import LinearClassifier


@cython.cclass
class FullRule(LinearRule):
    """On a margin error, a step along Sigma x; Sigma then loses what x made certain."""

    r: cython.double

    def __init__(self, d: int, single: bool, r: float) -> None:
        LinearRule.__init__(self, d, single)
        self.r = r
        try:
            self.covariance = Covariance(d)
        except MemoryError:
            raise MemoryError(
                f'the full covariance of {d} features takes {4e-9 * d * d:.0f} GB; use covariance="diagonal"'
            ) from None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_update(self) -> cython.bint:
        return self.y * self.margin < 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        v: cython.double = self.covariance.variance(self.x, self.index, self.n)
        alpha: cython.double = (1.0 - self.y * self.margin) / (v + self.r)
        self.check(alpha, v)
        self.note(TAU, alpha)
        self.covariance.narrow(self.r)  # Sigma -= Sigma x x' Sigma / (v + r)
        self.add_vector(alpha * self.y, self.covariance._direction)
        return 1


@cython.cclass
class DiagonalRule(LinearRule):
    """The same with a variance for each feature and no covariances."""

    r: cython.double
    sigma: cython.p_double  # d

    def __init__(self, d: int, single: bool, r: float) -> None:
        LinearRule.__init__(self, d, single)
        self.r = r
        self.extra = {"sigma": np.ones(d)}
        self.point()

    @cython.cfunc
    def point(self) -> cython.void:
        LinearRule.point(self)
        if self.extra:
            self.sigma = cython.cast(
                cython.p_double, cython.cast(cython.size_t, self.extra["sigma"].ctypes.data)
            )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_update(self) -> cython.bint:
        return self.y * self.margin < 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        v: cython.double = 0.0
        for k in range(self.n):
            v += self.sigma[self.place(k)] * self.x[k] * self.x[k]
        alpha: cython.double = (1.0 - self.y * self.margin) / (v + self.r)
        self.note(TAU, alpha)
        # Sigma x in place of x: what `add` adds
        along: cython.double = 0.0
        square: cython.double = 0.0
        step: cython.double
        for k in range(self.n):
            i = self.place(k)
            step = alpha * self.y * self.sigma[i] * self.x[k]
            along += step * self._weights[i]
            square += step * step
        after: cython.double = self.norm2 + 2.0 * along + square
        self.check(v, after)
        for k in range(self.n):
            i = self.place(k)
            self.set_weight(i, self._weights[i] + alpha * self.y * self.sigma[i] * self.x[k])
            # 1 / sigma += x^2 / r
            self.sigma[i] *= self.r / (self.r + self.sigma[i] * self.x[k] * self.x[k])
        self.moved(after)
        return 1


@cython.annotation_typing(False)  # here they are for readers
class AROW(LinearClassifier):
    """Adaptive regularization of weights: small steps where the past was informative, large ones elsewhere.

    Keeps a Gaussian over weight vectors; each margin error moves its mean and narrows it
    along the example. Clearly the best of the linear learners where features are
    correlated or differ in scale, and robust to noisy labels.

    Parameters
    ----------
    r : float, default=1.0
        How little a single example counts: larger is calmer. The only parameter, and its
        value seldom matters much.
    covariance : {"full", "diagonal"}, default="full"
        "full" keeps the d x d covariance: best, for up to some hundreds of features.
        "diagonal" keeps a variance for each feature: for wide sparse rows.

    Notes
    -----
    A margin error is y w . x < 1. With v = x' Sigma x, beta = 1 / (v + r) and
    alpha = (1 - y w . x) beta::

        w += alpha y Sigma x,     Sigma -= beta Sigma x x' Sigma

    which minimizes the relative entropy to the Gaussian before, plus the squared hinge
    loss of the mean and the variance v, each divided by 2 r. Over diagonal covariances the minimum is
    at 1 / Sigma_ii += x_i^2 / r instead. tau in the ledger is alpha.

    The full covariance is kept as a product of triangular factors, which stays positive whatever
    the scale of the features.

    Cost per round: O(non-zeros) without an update; with one O(d^2), or O(non-zeros) if diagonal. Memory
    4 d^2 bytes or O(d), for each class. The hyperplane passes through the origin.

    References
    ----------
    Crammer, Kulesza, Dredze: Adaptive Regularization of Weight Vectors (2009).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import AROW
    >>> X, y = load_digits(return_X_y=True)
    >>> AROW().progressive_fit(X, y % 2)
    Trace(1797 rounds, 178 mistakes, error rate 0.0991)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "r": [Interval(Real, 0.0, None, closed="neither")],
        "covariance": [StrOptions({"full", "diagonal"})],
    }

    def __init__(self, r: float = 1.0, covariance: str = "full") -> None:
        self.r = r
        self.covariance = covariance

    def _rule(self, d: int, single: bool) -> FullRule | DiagonalRule:
        return (FullRule if self.covariance == "full" else DiagonalRule)(d, single, self.r)
