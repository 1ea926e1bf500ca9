"""AROW, adaptive regularization of weights: a second-order learner that is not in the five papers."""

from numbers import Real
from typing import ClassVar, cast

import cython
import numpy as np
from cython.cimports.budgetron._core.covariance import Covariance
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.parameters import Constraints
from budgetron._util.checks import State

# With covariance="auto", the covariance is full up to this many features. At the limit it takes 4 MB per
# class, and an update takes about a million multiplications.
MOST_FULL = 1000


@cython.cclass
class FullRule(LinearRule):
    """On a margin error, take a step along Sigma x and reduce the variance along x."""

    r: cython.double

    def __init__(self, d: int, single: bool, r: float) -> None:
        LinearRule.__init__(self, d, single)
        self.r = r
        try:
            self.covariance = Covariance(d)
        except MemoryError:
            raise MemoryError(
                f'the full covariance of {d} features needs {4e-9 * d * d:.0f} GB; use covariance="diagonal"'
            ) from None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
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
    """The same update with one variance per feature and no covariances."""

    r: cython.double
    sigma: cython.p_double  # d

    def __init__(self, d: int, single: bool, r: float) -> None:
        LinearRule.__init__(self, d, single)
        self.r = r
        self.extra = {"sigma": np.ones(d)}
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        LinearRule.set_pointers(self)
        if self.extra:
            self.sigma = cython.cast(
                cython.p_double, cython.cast(cython.size_t, self.extra["sigma"].ctypes.data)
            )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
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
        # The step is along Sigma x, so `add`, which steps along x, cannot be used.
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


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class AROW(LinearClassifier):
    """Adaptive regularization of weights: smaller steps along directions that were updated often.

    It keeps a Gaussian distribution over weight vectors. Each margin error moves its mean and reduces its
    variance along the example. Use it for correlated features, features of different scale, and noisy labels,
    where it is clearly the best of the linear learners.

    Parameters
    ----------
    r : float, default=1.0
        Regularization: larger values mean smaller steps. The result seldom depends much on it.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        "full" keeps the d x d covariance: the fewest mistakes. "diagonal" keeps one variance per feature: for
        wide rows. "auto" is "full" up to 1000 features and "diagonal" above. If features that are added later
        (as river does) bring their number above 1000, "auto" changes from "full" to "diagonal": the variances
        stay, and the covariances are dropped.

    Notes
    -----
    A margin error is y w . x < 1. With v = x' Sigma x, beta = 1 / (v + r) and
    alpha = (1 - y w . x) beta::

        w += alpha y Sigma x,     Sigma -= beta Sigma x x' Sigma

    This minimizes the relative entropy to the previous Gaussian, plus the squared hinge loss of the mean and
    the variance v, each divided by 2 r. With a diagonal covariance the minimum is at
    1 / Sigma_ii += x_i^2 / r instead. tau in the ledger is alpha.

    Variances only become smaller: after many margin errors, steps along the directions of these rows are
    small, and the learner adapts slowly to a stream that changes. After a million rows of one class alone, a
    full covariance needed 460,000 rows of the other class to predict nine of ten correctly, and a diagonal
    one 5,000. For streams that change, use `PassiveAggressive` or `BudgetClassifier`.

    The full covariance is stored as a product of triangular factors, so that it stays positive for features
    of any scale.

    Cost per round: O(non-zeros) without an update; with an update O(d^2), or O(non-zeros) if diagonal. Memory
    per class: 4 d^2 bytes, or O(d) if diagonal. The hyperplane passes through the origin. No mistake bound is
    evaluated by `certify`.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "r": [Interval(Real, 0.0, None, closed="neither")],
        "covariance": [StrOptions({"auto", "full", "diagonal"})],
    }

    def __init__(self, r: float = 1.0, covariance: str = "auto") -> None:
        self.r = r
        self.covariance = covariance

    def _for_features(self, d: int) -> "AROW":
        if self.covariance != "auto":
            return self
        return AROW(self.r, "full" if d <= MOST_FULL else "diagonal")

    def _rule(self, d: int, single: bool) -> FullRule | DiagonalRule:
        return (FullRule if self.covariance == "full" else DiagonalRule)(d, single, self.r)

    def _add_features(self, d: int) -> None:
        if self._started_with["covariance"] == "auto" and self.n_features_in_ <= MOST_FULL < d:
            self._learners = [diagonal_rule(rule, self.r) for rule in self._learners]
        LinearClassifier._add_features(self, d)


@cython.annotation_typing(False)
def diagonal_rule(rule: FullRule, r: float) -> DiagonalRule:
    """Return the rule with the same weights and variances, but without covariances."""
    state = cast(State, rule.__getstate__())
    sigma = state["covariance"].matrix().diagonal().copy()
    diagonal = DiagonalRule(rule.n_features, rule.dtype == np.float32, r)
    diagonal.__setstate__(state | {"covariance": None, "extra": {"sigma": sigma}})
    return diagonal
