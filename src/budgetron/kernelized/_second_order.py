"""The second-order Projectron, beyond the five papers: AROW in the span of the Projectron's supports."""

from numbers import Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.gaussian import Gaussian
from cython.cimports.budgetron._core.gaussian_round import GaussianRound
from cython.cimports.budgetron._core.rule import DELTA, TAU, VARIANCE, Rule
from cython.cimports.libc.math import fabs, isfinite, sqrt
from sklearn.utils._param_validation import Interval

from budgetron._base.kernel_classifier import BudgetedClassifier
from budgetron._core.supports import Supports, writeable
from budgetron._util.checks import MOST_ROUNDS, require, require_array, require_int, require_moderate
from budgetron.kernels import KernelFunction, Normalized

# With more features than this, features have variances but no covariances.
WIDE = 1000
# A support whose share of the recent margins is below this part of the mean share may be exchanged.
SMALL_SHARE = 0.1


@cython.cclass
class SecondOrderRule(Rule):
    """On a margin error, add a support if the row is novel; then take a step of AROW in their span."""

    threshold: cython.double
    r: cython.double
    linear: cython.bint
    scale: cython.double  # factor of the features
    # Since the last exchange, while the budget was full: for each slot the sum of |k(x, s)| over margin
    # errors, and the number of margin errors that would have become supports
    usage: object
    _usage: cython.p_double
    refused: cython.Py_ssize_t

    def __init__(self, budget: int, threshold: float, r: float, linear: bool, scale: float) -> None:
        Rule.__init__(self, budget, ledger=("delta", "variance", "tau", "norm"), projection=True)
        self.threshold = threshold
        self.r = r
        self.linear = linear
        self.scale = scale
        self.usage = np.zeros(0)

    def attach(self, supports: Supports) -> None:
        """Work over this slab, with room for each of its slots."""
        self.gaussian = Gaussian(supports.d, self.linear, supports.d > WIDE, self.scale)
        self.gaussian_round = GaussianRound(self.gaussian)
        Rule.attach(self, supports)

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        usage = np.zeros(capacity)
        Rule.reserve(self, capacity)
        self.usage, self.refused = usage, 0  # the larger budget has refused none yet
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        Rule.set_pointers(self)
        place: cython.size_t = np.asarray(self.usage).ctypes.data
        self._usage = cython.cast(cython.p_double, place)

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that take memory."""
        arrays: dict[str, Any] = Rule.arrays(self) | {"usage": self.usage}
        return arrays

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = Rule.__getstate__(self) | {"usage": self.usage, "refused": self.refused}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.usage, self.refused = writeable(state["usage"]), state["refused"]
        Rule.__setstate__(self, state)
        self.gaussian_round = GaussianRound(self.gaussian)

    def check_own_state(self, state: dict[str, Any], capacity: int) -> dict[str, Any]:
        """Check the usage of the supports, which the oldest files lack."""
        state = {"usage": None, "refused": 0} | state
        usage = np.zeros(capacity) if state["usage"] is None else state["usage"]
        usage = require_array(usage, np.float64, (capacity,), "usage of the supports")
        require(np.all(usage >= 0.0), "usage of the supports should not be below 0")
        require_moderate(usage, 1.0, "usage of the supports")
        rounds = require_int(state["rounds"], 0, MOST_ROUNDS, "rounds")
        return state | {
            "usage": usage,
            "refused": require_int(state["refused"], 0, rounds, "supports refused"),
        }

    def keep_average(self) -> None:
        """Raise an error: the hypothesis is not a sum of steps over supports."""
        raise ValueError(
            "SecondOrderProjectron stores its hypotheses in coordinates; they cannot be averaged or recorded"
        )

    keep_journal = keep_average

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.y * self.margin < 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        single: cython.bint = self.supports.single
        delta2: cython.double = self.novelty()
        novel: cython.bint = delta2 > self.threshold
        full: cython.bint = self.size() >= self.budget
        # v = phi' Sigma phi; a new coordinate has variance 1, and is ||delta|| in phi
        v: cython.double = self.gaussian_round.variance_at(self.projection.row_z, self.rows, self.row, single)
        if novel and not full:
            v += delta2
        alpha: cython.double = (1.0 - self.y * self.margin) / (v + self.r)
        self.require_finite(v)
        self.note(DELTA, sqrt(delta2))
        self.note(VARIANCE, v)
        self.note(TAU, alpha)
        if novel and not full:
            self.add(0.0)
            self.projection.append(delta2, self.k, self.supports)
            self.gaussian_round.append(sqrt(delta2))
        # w += alpha y Sigma phi, Sigma -= Sigma phi phi' Sigma / (v + r)
        self.gaussian_round.step(alpha * self.y, self.r, v, self.rows, self.row, single)
        self.update_norm_and_coefficients()
        if full:
            self.count_usage(novel)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def novelty(self) -> cython.double:
        """Return ||delta||^2, the squared distance of x from the span, or 0 if it is rounding."""
        delta2: cython.double = self.kxx - self.gaussian_round.project(self.projection, self.k)
        return 0.0 if delta2 < (1e-5 if self.supports.single else 1e-12) * self.kxx else delta2

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def require_finite(self, v: cython.double) -> cython.int:
        """Raise an error if the variance v overflowed."""
        if not isfinite(v):
            with cython.gil:
                raise ValueError(f"the variance of round {self.rounds} is not finite: scale the features")
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update_norm_and_coefficients(self) -> cython.int:
        """Compute ||f|| and, outside of blocks, the coefficients of the mean."""
        self.norm2 = self.gaussian.square()
        if not isfinite(self.norm2):
            with cython.gil:
                raise ValueError(f"the step of round {self.rounds} overflows: scale the features")
        if not self.gaussian_round.changes_are_pending():
            self.gaussian.coefficients(self.projection, self._coef)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def count_usage(self, novel: cython.bint) -> cython.void:
        """Count a margin error while the budget is full."""
        j: cython.Py_ssize_t
        for j in range(self.size()):
            self._usage[j] += fabs(self.k[j])
        self.refused += novel
        self.prune_due = self.refused >= self.budget

    def exchange(self) -> Any:
        """Remove the supports that contribute almost nothing to recent margins.

        Return the slots that are kept, or None if all are.
        """
        usage = np.asarray(self.usage)
        # In a batch the coefficients are otherwise computed at its end only.
        self.gaussian.coefficients(self.projection, self._coef)
        kept, removed = self.split_by_share()
        span = self.projection.restricted(kept, removed) if len(removed) else None
        parts: Any = None if span is None else self.gaussian.restricted(kept, removed, span[1])
        # From here on nothing is allocated and only compiled code runs, so that an interrupt cannot leave it
        # half done.
        self.prune_due, self.refused = False, 0
        usage[:] = 0.0
        if span is None:
            return None
        self.projection.set_factor(span[0])
        self.gaussian.set_support_part(parts[0], parts[1], parts[2])
        self.supports.keep(kept)
        self.coef[:] = 0.0
        self.gaussian.coefficients(self.projection, self._coef)
        self.norm2 = self.gaussian.square()
        return kept

    def split_by_share(self) -> Any:
        """Return the slots to keep and the slots to remove.

        The share of a support is its |coefficient| times its usage. Those with a share below SMALL_SHARE of
        the mean leave, the smallest first, and at most a quarter of the budget. Of equal shares, the oldest
        leaves first.
        """
        m: cython.Py_ssize_t = self.size()
        shares = np.abs(self.coef[:m]) * np.asarray(self.usage)[:m]
        tie = self.tie_share()  # relative differences below this are rounding
        order = np.argsort(shares, kind="stable")
        ascending = shares[order]
        ranks = np.append(0, np.cumsum(ascending[1:] > ascending[: m - 1] * (1.0 + tie)))
        order = order[np.lexsort((order, ranks))]  # slots are in the order of age
        small = order[: max(1, self.budget // 4)]
        small = small[shares[small] < SMALL_SHARE * shares.mean() * (1.0 - tie)]
        return np.delete(np.arange(m), small), np.sort(small)


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class SecondOrderProjectron(BudgetedClassifier):
    """AROW in the span of a few supports and of the features: far fewer mistakes for the same memory.

    The most accurate single kernel learner here. It stores the rows that the Projectron's test finds novel.
    Over the functions in their span, and over linear functions, it has a Gaussian. Steps are large along
    directions with a large variance, and small along directions where many rows were seen. When the stream
    changes, supports that no longer contribute to the margins are replaced by novel rows.

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports; of each class, if there are more than two. When it is reached, new
        supports come only by exchange (see the notes).
    threshold : float, default=0.02
        A margin error becomes a support if the squared distance of its image from the span of the supports
        is above this. The distance is at most k(x, x), which is 1 for "rbf".
    r : float, default=1.0
        Noise variance of AROW. With a larger r, each example has less influence.
    linear : bool, default=True
        Whether the hypothesis has a linear part, as if the kernel were k(x, x') + gamma x . x' + 1. With more
        than 1000 features, features have variances but no covariances.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that compute the kernel values of a batch. None means 1, -1 all cores.

    Notes
    -----
    Let K = L L' be the Gram matrix of the supports. A row with kernel values k has the coordinates
    z = L^-1 k in an orthonormal basis of their span, and phi = (1, sqrt(gamma) x, z) in all. A margin error
    is y w . phi < 1. One with ||delta||^2 = k(x, x) - ||z||^2 above the threshold first becomes a
    support; its coordinate in phi is ||delta||, of mean 0 and variance 1. Then, with v = phi' Sigma phi
    and alpha = (1 - y w . phi) / (v + r)::

        w += alpha y Sigma phi,     Sigma -= Sigma phi phi' Sigma / (v + r)

    Exchange: when as many novel margin errors as the budget were not stored because the budget was full,
    supports with a small share of the margins are removed. The share of a support is its |coefficient| times
    the sum of |k(x, s)| over the margin errors since the budget was full, or since the last exchange.
    Supports with less than a tenth of the mean share are removed, the smallest first, and at most a quarter
    of the budget. Shares with a relative difference below 1e-9 (1e-6 for float32 rows) are equal;
    of these the oldest is removed first. The mean and Sigma are restricted to the remaining span. New
    supports start with mean 0 and variance 1. If supports are so nearly dependent that rounding would make
    the restriction inaccurate, none is removed. `support_sizes` of a trace decreases in the round of an
    exchange.

    The variance of a direction never falls below 1e-15 of its initial value, the limit of rounding. Rows
    should be on a scale comparable to r: if gamma ||x||^2 or k(x, x) is 1e12 times as large, little is
    learned, and a step may overflow, which raises an error.

    Cost per round, with m supports and n = m + d + 1 coordinates: one kernel row, O(m d); in batches O(m^2)
    for z; and O(n^2) per update. An exchange takes O(m^3) after at least m updates, so O(m^2) per update, and
    about 24 m^2 + 8 m d bytes meanwhile. Memory: 4 n^2 + 4 m^2 bytes per class, plus the supports.

    Proven, up to 1000 features and before the first exchange: the run is a run of AROW on the vectors phi,
    padded with zeros. So AROW's bound on mistakes holds against every function of the final span, and every
    linear function, with its losses at the images of the rows in the span at their time. Before the budget is
    reached, these are within sqrt(threshold) ||u|| of its losses at margin errors. Not proven: bounds against
    functions outside of that span once the budget is reached, and bounds after an exchange or under drift.
    These cases are only measured.

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), for the test. Crammer, Kulesza, Dredze: Adaptive
    Regularization of Weight Vectors (2009), for the step.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import SecondOrderProjectron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SecondOrderProjectron(budget=100, gamma=0.0005)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 80 mistakes, error rate 0.0445, 100 supports)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = BudgetedClassifier._parameter_constraints | {
        "threshold": [Interval(Real, 0.0, None, closed="left")],
        "r": [Interval(Real, 0.0, None, closed="neither")],
        "linear": ["boolean"],
    }

    def __init__(
        self,
        budget: int = 300,
        threshold: float = 0.02,
        r: float = 1.0,
        linear: bool = True,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(budget, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.threshold = threshold
        self.r = r
        self.linear = linear

    def _rule(self, generator: np.random.Generator) -> SecondOrderRule:
        scale = float(np.sqrt(self.gamma_))
        return SecondOrderRule(self.budget, self.threshold, self.r, self.linear, scale)
