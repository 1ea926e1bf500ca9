"""The rule of the second-order kernel learners: AROW in the span of the Projectron's supports."""

from typing import Any

import cython
import numpy as np
from cython.cimports.budgetron._core.gaussian import SIGMA_PANEL, Gaussian
from cython.cimports.budgetron._core.gaussian_round import GaussianRound
from cython.cimports.budgetron._core.losses import SQUARED, Loss, choose_steps, is_learned, length_of
from cython.cimports.budgetron._core.panels import multiply, solve_one
from cython.cimports.budgetron._core.projection import FACTOR_PANEL
from cython.cimports.budgetron._core.rule import DELTA, TAU, VARIANCE, Rule
from cython.cimports.libc.math import fabs, isfinite, sqrt

from budgetron._base.part_state import check_errors
from budgetron._core.losses import LOSSES
from budgetron._core.supports import Supports, writeable
from budgetron._util.checks import MOST_ROUNDS, require, require_array, require_int, require_moderate

# With more features than this, features have variances but no covariances, unless the caller chooses.
WIDE = 1000
# ||delta||^2 below these parts of k(x, x), for rows in double and in single precision, counts as 0. A support
# so close to the span of the others would add mostly rounding errors to the predictions.
DOUBLE_FLOOR = cython.declare(cython.double, 1e-9)
SINGLE_FLOOR = cython.declare(cython.double, 1e-4)
# A support whose share of the recent margins is below this part of the mean share may be exchanged.
SMALL_SHARE = 0.1


@cython.cclass
class SecondOrderRule(Rule):
    """If the loss of a row is not small: add a support if the row is novel, then move the Gaussian."""

    threshold: cython.double
    r: cython.double
    linear: cython.bint
    scale: cython.double  # factor of the features
    loss: Loss
    prior: cython.double
    keep: cython.double
    most_dense: cython.Py_ssize_t  # with more features than this, features have variances but no covariances
    # For each output, the step of the round divided by Sigma phi
    steps: object
    _steps: cython.p_double
    # Since the last exchange, while the budget was full: for each slot the sum of |k(x, s)| over margin
    # errors, and the number of margin errors that would have become supports
    usage: object
    _usage: cython.p_double
    refused: cython.Py_ssize_t
    fixed: cython.bint  # whether supports are neither added nor removed any more
    # Whether labels are the targets of a regression. Then also: the sum of e^2 / (v + r) over all rounds,
    # where e is the residual and v the variance of f(x), and the sum of the weights of the rounds, which are
    # below 1 for what is forgotten
    regression: cython.bint
    errors: object
    _errors: cython.p_double
    # The variance of f(x) in the last round of a regression, before it was learned
    variance: cython.double

    def __init__(
        self,
        budget: int,
        threshold: float,
        r: float,
        linear: bool,
        scale: float,
        loss: str,
        prior: float,
        forget: float,
        outputs: int,
        most_dense: int = WIDE,
        regression: bool = False,
    ) -> None:
        Rule.__init__(self, budget, ledger=("delta", "variance", "tau", "norm"), projection=True)
        self.threshold = threshold
        self.adds_supports = threshold < np.inf
        self.r = r
        self.linear = linear
        self.scale = scale
        self.loss = LOSSES.index(loss)
        self.prior = prior
        self.keep = forget
        self.most_dense = most_dense
        self.usage = np.zeros(0)
        self.regression = regression
        self.errors = np.zeros(2 if regression else 0)
        self.set_outputs(outputs)

    def attach(self, supports: Supports) -> None:
        """Work over this slab, with room for each of its slots."""
        wide = supports.d > self.most_dense
        self.gaussian = Gaussian(supports.d, self.linear, wide, self.scale, self.prior, self.outputs)
        self.gaussian_round = GaussianRound(self.gaussian, self.keep)
        Rule.attach(self, supports)

    def set_outputs(self, outputs: int) -> None:
        """Consist of this many functions from now on."""
        Rule.set_outputs(self, outputs)
        self.steps = np.zeros(outputs)
        self.set_argument(8, outputs)  # copies of the rule are made with it

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        usage = np.zeros(capacity)
        Rule.reserve(self, capacity)
        self.usage, self.refused = usage, 0  # the larger budget has refused none yet
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        Rule.set_pointers(self)
        usage: cython.size_t = np.asarray(self.usage).ctypes.data
        steps: cython.size_t = np.asarray(self.steps).ctypes.data
        self._usage = cython.cast(cython.p_double, usage)
        errors: cython.size_t = np.asarray(self.errors).ctypes.data
        self._steps = cython.cast(cython.p_double, steps)
        self._errors = cython.cast(cython.p_double, errors)

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that take memory."""
        own = {"usage": self.usage, "steps": self.steps, "errors": self.errors}
        arrays: dict[str, Any] = Rule.arrays(self) | own
        return arrays

    def __getstate__(self) -> dict[str, Any]:
        own = {"usage": self.usage, "refused": self.refused, "fixed": bool(self.fixed)}
        if self.regression:
            own["errors"] = self.errors
        state: dict[str, Any] = Rule.__getstate__(self) | own
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.usage, self.refused = writeable(state["usage"]), state["refused"]
        if self.regression:
            self.errors = writeable(state["errors"])
        self.set_fixed(state["fixed"])
        Rule.__setstate__(self, state)
        self.gaussian_round = GaussianRound(self.gaussian, self.keep)

    def check_own_state(self, state: dict[str, Any], capacity: int) -> dict[str, Any]:
        """Check the entries that older files lack: the usage of the supports, and whether they are fixed."""
        state = {"usage": None, "refused": 0, "fixed": False} | state
        require(type(state["fixed"]) is bool, "fixed should be true or false")
        usage = np.zeros(capacity) if state["usage"] is None else state["usage"]
        usage = require_array(usage, np.float64, (capacity,), "usage of the supports")
        require(np.all(usage >= 0.0), "usage of the supports should not be below 0")
        require_moderate(usage, 1.0, "usage of the supports")
        rounds = require_int(state["rounds"], 0, MOST_ROUNDS, "rounds")
        if self.regression:
            check_errors(state.get("errors"), rounds)
        return state | {
            "usage": usage,
            "refused": require_int(state["refused"], 0, rounds, "supports refused"),
        }

    def normalized_errors(self) -> Any:
        """Return a copy of the sums of a regression: of e^2 / (v + r), and of the weights of the rounds."""
        return np.array(self.errors)

    def last_variance(self) -> float:
        """Return the variance of f(x) in the last round, before it was learned."""
        return float(self.variance)

    def variance_of(self, kernel_values: Any, kxx: float) -> float:
        """Return the variance of f(x) at a row, from its kernel values and k(x, x), without a linear part."""
        n: cython.Py_ssize_t = self.gaussian.n
        z, direction = np.zeros(self.supports.capacity), np.zeros(self.supports.capacity)
        z[:n] = kernel_values
        z_address: cython.size_t = z.ctypes.data
        address: cython.size_t = direction.ctypes.data
        solve_one(self.projection._factor, FACTOR_PANEL, n, cython.cast(cython.p_double, z_address))
        multiply(
            self.gaussian._sigma,
            SIGMA_PANEL,
            n,
            cython.cast(cython.p_double, z_address),
            cython.cast(cython.p_double, address),
        )
        return float(max(z @ direction, 0.0) + self.prior * max(kxx - z @ z, 0.0))

    def set_fixed(self, fixed: bool) -> None:
        """Set whether supports are neither added nor removed from now on."""
        self.fixed = fixed
        self.adds_supports = self.threshold < np.inf and not fixed

    def has_fixed_supports(self) -> bool:
        """Return whether supports are neither added nor removed any more."""
        return bool(self.fixed)

    def keep_average(self, limit: int = 0) -> None:
        """Raise an error: the hypothesis is not a sum of steps over supports."""
        raise ValueError(
            "SecondOrderProjectron stores its hypotheses in coordinates; they cannot be averaged or recorded"
        )

    keep_journal = keep_average

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        if self.importance == 0.0:
            return False
        return is_learned(self.loss, self.outputs, self._scores, self.target, self.y, self.margin)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        single: cython.bint = self.supports.single
        delta2: cython.double = self.novelty()
        # With the squared loss every row is learned, but only a margin error, or any row of a regression, may
        # become a support.
        error: cython.bint = self.regression or self.loss != SQUARED or self.y * self.margin < 1.0
        novel: cython.bint = error and delta2 > self.threshold and not self.fixed
        full: cython.bint = self.size() >= self.budget
        # v = phi' Sigma phi; a new coordinate has the variance of the prior, and is ||delta|| in phi
        v: cython.double = self.gaussian_round.variance_at(self.projection.row_z, self.rows, self.row, single)
        if self.regression:
            self.variance = v + self.prior * delta2
            self.count_error(self.variance)
        if novel and not full:
            v += self.prior * delta2
        self.require_finite(v)
        noise: cython.double = choose_steps(
            self.loss,
            self.outputs,
            self._scores,
            self.target,
            self.y,
            self.margin,
            v,
            self.r / self.importance,
            self._steps,
        )
        self.note(DELTA, sqrt(delta2))
        self.note(VARIANCE, v)
        self.note(TAU, length_of(self._steps, self.outputs))
        if novel and not full:
            self.add(0.0)
            self.projection.append(delta2, self.k, self.supports)
            self.gaussian_round.append(sqrt(delta2))
        self.move_coefficients()
        # w_c += step_c Sigma phi, Sigma -= Sigma phi phi' Sigma / (v + noise); then a part is forgotten
        self.gaussian_round.step(self._steps, noise, v, self.rows, self.row, single)
        self.update_norm_and_coefficients()
        if full and error and not self.fixed:
            self.count_usage(novel)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def move_coefficients(self) -> cython.void:
        """With several outputs and outside of blocks, move the coefficients as the means will move.

        This takes one solution for all outputs, where the coefficients of the means take one for each.
        """
        c: cython.Py_ssize_t
        j: cython.Py_ssize_t
        capacity: cython.Py_ssize_t = self.supports.capacity
        root: cython.double = sqrt(self.keep)
        if self.outputs == 1 or self.gaussian_round.changes_are_pending():
            return
        self.gaussian.move_coefficients(self.projection, self._steps, self._coef, capacity, self._scratch)
        if self.keep < 1.0:
            for c in range(self.outputs):
                for j in range(self.size()):
                    self._coef[c * capacity + j] *= root

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def novelty(self) -> cython.double:
        """Return ||delta||^2, the squared distance of x from the span, or 0 if rounding dominates it."""
        delta2: cython.double = self.kxx - self.gaussian_round.project(self.projection, self.k)
        return 0.0 if delta2 < (SINGLE_FLOOR if self.supports.single else DOUBLE_FLOOR) * self.kxx else delta2

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
        """Compute ||f|| and, with one output and outside of blocks, the coefficients of the mean."""
        self.norm2 = self.gaussian.square()
        if not isfinite(self.norm2):
            with cython.gil:
                raise ValueError(f"the step of round {self.rounds} overflows: scale the features")
        if self.outputs == 1 and not self.gaussian_round.changes_are_pending():
            self.set_coefficients()
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def count_error(self, v: cython.double) -> cython.void:
        """Count the residual of a regression; v is the variance of f(x), also outside of the span."""
        residual: cython.double = self.y - self.margin
        self._errors[0] = self.keep * self._errors[0] + residual * residual / (v + self.r / self.importance)
        self._errors[1] = self.keep * self._errors[1] + 1.0

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
        self.set_coefficients()
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
        self.update_coefficients()
        return kept

    def split_by_share(self) -> Any:
        """Return the slots to keep and the slots to remove.

        The share of a support is the sum of its |coefficients| times its usage. Those with a share below
        SMALL_SHARE of the mean leave, the smallest first, and at most a quarter of the budget. Of equal
        shares, the oldest leaves first.
        """
        m: cython.Py_ssize_t = self.size()
        shares = np.abs(self.coef.reshape(self.outputs, -1)[:, :m]).sum(axis=0) * np.asarray(self.usage)[:m]
        tie = self.tie_share()  # relative differences below this are rounding
        order = np.argsort(shares, kind="stable")
        ascending = shares[order]
        ranks = np.append(0, np.cumsum(ascending[1:] > ascending[: m - 1] * (1.0 + tie)))
        order = order[np.lexsort((order, ranks))]  # slots are in the order of age
        small = order[: max(1, self.budget // 4)]
        small = small[shares[small] < SMALL_SHARE * shares.mean() * (1.0 - tie)]
        return np.delete(np.arange(m), small), np.sort(small)
