"""Winnow (Mohri et al., figure 8.10)."""

from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import Z
from cython.cimports.libc.math import INFINITY, exp, fabs, log, sinh
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval

from budgetron import bounds
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, Run, WeightsTheorem
from budgetron._util.checks import require

# When the sum of the stored weights falls to this share of its peak, it is recomputed. With averages it is
# also recomputed when it has grown by the factor GROWN, because the average would lose as many digits.
FALLEN = cython.declare(cython.double, 0.01)
GROWN = cython.declare(cython.double, 1e4)

# The largest stored weight stays below exp of this.
HIGHEST = cython.declare(cython.double, 200.0)


@cython.cclass
class WinnowRule(LinearRule):
    """On a mistake, multiply each weight w_i by exp(eta y x_i) and divide all by their sum Z.

    Let theta be the sum of eta y x over the mistakes. Then w_i is exp(theta_i) divided by the sum of all
    exp(theta_j). The rule stores theta, which loses no digits, and the weights exp(theta_i - shift), whose
    sum is 1 / factor. The stored weight of a feature that is 0 does not change, so an update touches only the
    non-zeros. If balanced, each feature has a second one that is its negative, and its theta is the negative.
    """

    eta: cython.double
    balanced: cython.bint
    theta: cython.p_double
    # Of the stored weights: the logarithm of their divisor; their sum; its peak; the sum when it was last
    # recomputed
    shift: cython.p_double
    total: cython.p_double
    most: cython.p_double
    base: cython.p_double
    peaks: cython.p_double  # with a journal, the largest value of each stored weight since then

    def __init__(self, d: int, single: bool, intercept: bool, eta: float, balanced: bool) -> None:
        LinearRule.__init__(self, d, single, ledger=("Z",), intercept=intercept)
        self.eta = eta
        self.balanced = balanced
        self.extra = {"theta": np.zeros(self.d), "sums": np.zeros(4)}
        self.norm2 = 1.0  # ||w||_1 = 1, and ||w||_2 is not above it
        self.set_pointers()
        self.rebase(0.0)
        self.factor = 1.0 / self.total[0]

    def check_own_state(self, extra: dict[str, NDArray[np.float64]]) -> None:
        """Check the sums of the weights; the factor is divided by one of them."""
        require(np.all(extra["sums"][1:3] > 0.0), "sums of weights should be above 0")
        require(extra["sums"][3] >= 0.0, "sums of weights should not be below 0")

    def mirrored(self, generator: np.random.Generator | None = None) -> None:
        """Return None: weights that are never negative cannot change their sign."""
        return

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; theta is 0 for the new ones."""
        old = self.d
        LinearRule.add_features(self, d)
        sums = self.extra["sums"]
        each = np.exp(-sums[0])
        self.weights[old:] = 0.0 if self.balanced else each
        sums[1] += (self.d - old) * each * (2 if self.balanced else 1)
        sums[2] = max(sums[1:3])
        self.factor = 1.0 / sums[1]

    def keep_journal(self) -> None:
        """Keep every hypothesis; a weight that became much smaller is recorded again, to keep its digits."""
        LinearRule.keep_journal(self)
        self.extra["peaks"] = np.abs(self.weights)
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        LinearRule.set_pointers(self)
        if self.extra:
            self.theta = cython.cast(
                cython.p_double, cython.cast(cython.size_t, self.extra["theta"].ctypes.data)
            )
            self.shift = cython.cast(
                cython.p_double, cython.cast(cython.size_t, self.extra["sums"].ctypes.data)
            )
            self.total = self.shift + 1
            self.most = self.shift + 2
            self.base = self.shift + 3
            self.peaks = cython.NULL
            if "peaks" in self.extra:
                self.peaks = cython.cast(
                    cython.p_double, cython.cast(cython.size_t, self.extra["peaks"].ctypes.data)
                )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        step: cython.double = self.eta * self.y
        highest: cython.double = self.highest(step)
        before: cython.double = log(self.total[0]) + self.shift[0]
        fallen: cython.bint = False
        # Before the weights grow: an average would lose the digits of small weights.
        if highest - self.shift[0] > (HIGHEST if self.average is None else log(GROWN)):
            self.rebase(highest)
        for k in range(self.n):
            i = self.place(k)
            self.total[0] -= self.mass(i)
            self.theta[i] += step * self.x[k]
            self.total[0] += self.mass(i)
            self.set_weight(i, self.stored(i))
            if self.peaks != cython.NULL:
                self.peaks[i] = max(self.peaks[i], fabs(self._weights[i]))
                fallen = fallen or fabs(self._weights[i]) < self.peaks[i] / GROWN
        self.updated = True
        self.most[0] = max(self.most[0], self.total[0])
        grown: cython.bint = self.average is not None and self.total[0] > GROWN * self.base[0]
        if fallen or grown or self.total[0] < FALLEN * self.most[0]:
            self.rebase(self.highest(0.0))
        self.note(Z, exp(log(self.total[0]) + self.shift[0] - before))
        self.factor = 1.0 / self.total[0]
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def mass(self, i: cython.Py_ssize_t) -> cython.double:
        """Return what feature i adds to the sum, with its negative if balanced."""
        mass: cython.double = exp(self.theta[i] - self.shift[0])
        return mass + exp(-self.theta[i] - self.shift[0]) if self.balanced else mass

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def stored(self, i: cython.Py_ssize_t) -> cython.double:
        """Return the stored weight of feature i."""
        if not self.balanced:
            return exp(self.theta[i] - self.shift[0])
        if fabs(self.theta[i]) < 1.0:  # where the difference would cancel
            return 2.0 * sinh(self.theta[i]) * exp(-self.shift[0])
        return exp(self.theta[i] - self.shift[0]) - exp(-self.theta[i] - self.shift[0])

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def highest(self, step: cython.double) -> cython.double:
        """Return the largest theta of the row after adding `step` x; if `step` is 0, of all features."""
        k: cython.Py_ssize_t
        value: cython.double
        most: cython.double = -INFINITY
        for k in range(self.n if step != 0.0 else self.d):
            value = self.theta[self.place(k)] + step * self.x[k] if step != 0.0 else self.theta[k]
            if self.balanced:
                value = fabs(value)
            if value > most:
                most = value
        return most

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def rebase(self, shift: cython.double) -> cython.int:
        """Store the weights relative to another shift, and recompute their sum."""
        i: cython.Py_ssize_t
        self.check(shift, 0.0)
        self.clear()
        self.shift[0] = shift
        self.total[0] = 0.0
        for i in range(self.d):
            self.set_weight(i, self.stored(i))
            self.total[0] += self.mass(i)
            if self.peaks != cython.NULL:
                self.peaks[i] = fabs(self._weights[i])
        self.most[0] = self.base[0] = self.total[0]
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class Winnow(LinearClassifier):
    """Winnow: on a mistake, multiply the weights of features that agree with the label; their sum stays 1.

    Use it if only a few of many features are relevant: its mistake bound grows with the logarithm of the
    number of features, while that of the Perceptron grows with their number.

    Parameters
    ----------
    eta : float, default=0.1
        Step size. The choice of the theorem is rho / r^2, for features within [-r, r] and a competitor with
        margin rho whose weights sum to 1.
    balanced : bool, default=False
        Whether to add the negative of each feature. Otherwise only hyperplanes with weights >= 0 can be
        learned. Use it unless you know that large values of all features indicate the second class.
    fit_intercept : bool, default=False
        Whether to add a constant feature of 1, whose weight is the intercept. The default is False, unlike
        that of the other learners, because the theorem depends on the largest feature: if r < 1, a feature of
        1 increases r, and with it the bound and the eta to choose. If not balanced, the intercept is never
        negative. Use it with `balanced` and rows scaled to r = 1.

    Notes
    -----
    Cost per round: O(non-zeros). Memory: O(d). Logarithms of the weights are stored, so that small weights
    are not lost. Z in the ledger is the sum that an update divides by. ||w||_1 = 1, and `coef_` is w; if
    balanced, it is the difference of the two weights of each feature.

    If ||x_t||_inf <= r and some v >= 0 has y v . x >= rho ||v||_1 on all rounds, at most 2 (r / rho)^2 log d
    updates are made with eta = rho / r^2 (Mohri et al., Theorem 8.13). An intercept counts as a feature. If
    balanced, d becomes 2 d.

    With features of -1 and +1 and no intercept it is `budgetron.experts.WeightedMajority` with
    beta = exp(-2 eta), except for ties: they are mistakes here, and votes for 1 there.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.10.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import Winnow
    >>> X, y = load_digits(return_X_y=True)
    >>> Winnow(eta=0.5, balanced=True).progressive_fit(X / 16, y % 2)
    Trace(1797 rounds, 304 mistakes, error rate 0.1692)
    """

    _parameter_constraints: ClassVar[Constraints] = FIT_INTERCEPT | {
        "eta": [Interval(Real, 0.0, None, closed="neither")],
        "balanced": ["boolean"],
    }

    def __init__(self, eta: float = 0.1, balanced: bool = False, *, fit_intercept: bool = False) -> None:
        self.eta = eta
        self.balanced = balanced
        self.fit_intercept = fit_intercept

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = not self.balanced  # most problems need negative weights
        return tags

    def _rule(self, d: int, single: bool) -> WinnowRule:
        return WinnowRule(d, single, self.fit_intercept, self.eta, self.balanced)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [WeightsTheorem("winnow_general", self._bound, count=self.updates_)]

    def _bound(self, run: Run, weights: NDArray[np.float64] | None, check: bounds.Check) -> float:
        """Return the bound against weights >= 0 that sum to 1; without weights, against the best."""
        rows = run.y[:, None] * (np.hstack([run.X, -run.X]) if self.balanced else run.X)
        if weights is None:
            v, run.competitor = weights_of_largest_margin(rows), "the weights of largest margin"
        else:
            v, run.competitor = weights, "a weight vector"
            if self.balanced:
                v = np.concatenate([np.maximum(weights, 0), np.maximum(-weights, 0)])
            bounds.assume(check, bool(np.all(v >= 0)), "a least weight of at least 0", float(v.min()))
        v = v / np.abs(v).sum()
        run.norm, run.margins = 1.0, rows @ v
        largest = float(np.abs(run.X).max())
        return bounds.winnow_general(largest, float(run.margins.min()), rows.shape[1], self.eta, check=check)


def weights_of_largest_margin(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return v >= 0 with sum 1 whose smallest product with a row is largest."""
    from scipy.optimize import linprog  # takes long to import

    m, n = rows.shape
    # maximize rho subject to rows v >= rho
    found = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=np.hstack([-rows, np.ones((m, 1))]),
        b_ub=np.zeros(m),
        A_eq=np.append(np.ones(n), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * n + [(None, None)],
    )
    weights: NDArray[np.float64] = found.x[:n]
    return weights
