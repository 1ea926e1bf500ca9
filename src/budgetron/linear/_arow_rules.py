"""The rules of AROW and of its regressor: Gaussians over weights, with a full or a diagonal covariance."""

from typing import Any, cast

import cython
import numpy as np
from cython.cimports.budgetron._core.covariance import FactoredCovariance, ForgettingCovariance
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.losses import Loss, choose_steps, is_learned, length_of
from cython.cimports.budgetron._core.rule import TAU, VARIANCE
from cython.cimports.libc.math import sqrt

from budgetron._base.part_state import check_errors
from budgetron._core.losses import LOSSES
from budgetron._util.checks import MOST_ROUNDS, State, require
from budgetron._util.types import Floats

# With covariance="auto", the covariance is full up to this many features. At the limit it takes 4 MB, and an
# update takes about a million multiplications.
MOST_FULL = 1000

# The common factor of the reductions is multiplied into them before it underflows.
SMALLEST_DECAY = cython.declare(cython.double, 1e-40)


@cython.cclass
class ArowRule(LinearRule):
    """The parameters, and the step of each output; subclasses have the covariance."""

    r: cython.double
    loss: Loss
    prior: cython.double
    keep: cython.double
    # For each output, the step of the round divided by Sigma x
    steps: object
    _steps: cython.p_double
    # In a regression: the sum of e^2 / (v + r) over all rounds, where e is the residual and v the variance of
    # f(x), and the sum of their weights: what is forgotten counts less
    _errors: cython.p_double

    def __init__(
        self,
        d: int,
        single: bool,
        intercept: bool,
        r: float,
        loss: str,
        prior: float,
        forget: float,
        outputs: int,
        regression: bool = False,
    ) -> None:
        ledger = ("tau", "variance", "norm") if regression else ("tau", "norm")
        LinearRule.__init__(self, d, single, ledger=ledger, outputs=outputs, intercept=intercept)
        if regression:
            self.extra = {"errors": np.zeros(2)}
        self.r = r
        self.loss = LOSSES.index(loss)
        self.prior = prior
        self.keep = forget
        self.set_outputs(outputs)

    def set_outputs(self, outputs: int) -> None:
        """Consist of this many functions from now on."""
        LinearRule.set_outputs(self, outputs)
        self.steps = np.zeros(outputs)
        self.set_argument(7, outputs)  # copies of the rule are made with it
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        LinearRule.set_pointers(self)
        if self.steps is not None:
            steps: cython.size_t = np.asarray(self.steps).ctypes.data
            self._steps = cython.cast(cython.p_double, steps)
        self._errors = address(self.extra["errors"]) if "errors" in self.extra else cython.NULL

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that outlive a round, by name."""
        arrays: dict[str, Any] = LinearRule.arrays(self) | {"steps": self.steps}
        return arrays

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
    def choose(self, v: cython.double) -> cython.double:
        """Compute the step of each output at a row of variance v; return the noise for Sigma.

        Raise an error, before anything has changed, if the steps might overflow.
        """
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
        length: cython.double = length_of(self._steps, self.outputs)
        longest: cython.double = length * sqrt(self.prior * v)  # at least ||step Sigma x||
        self.check(v, longest * longest)
        self.check(length, 1.0 / noise)
        self.note(TAU, length)
        self.note(VARIANCE, v)
        if self._errors != cython.NULL:
            residual: cython.double = self.y - self.margin
            self._errors[0] = self.keep * self._errors[0] + residual * residual / (v + noise)
            self._errors[1] = self.keep * self._errors[1] + 1.0
        return noise

    def check_own_state(self, extra: dict[str, Floats]) -> None:
        """Check the errors of a regression."""
        if "errors" in extra:
            check_errors(extra["errors"], MOST_ROUNDS)


@cython.cclass
class FullRule(ArowRule):
    """Take a step along Sigma x and reduce the variance along x."""

    def __init__(
        self,
        d: int,
        single: bool,
        intercept: bool,
        r: float,
        loss: str,
        prior: float,
        forget: float,
        outputs: int,
        regression: bool = False,
    ) -> None:
        ArowRule.__init__(self, d, single, intercept, r, loss, prior, forget, outputs, regression)
        form: Any = FactoredCovariance if forget == 1.0 else ForgettingCovariance
        try:
            self.covariance = form(self.d, prior)
        except MemoryError:
            raise MemoryError(
                f'the full covariance of {d} features needs {4e-9 * d * d:.0f} GB; use covariance="diagonal"'
            ) from None

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        v: cython.double = self.covariance.variance(self.x, self.index, self.n)
        noise: cython.double = self.choose(v)
        self.covariance.narrow(noise)  # Sigma -= Sigma x x' Sigma / (v + noise)
        self.add_vectors(self._steps, self.covariance._direction)  # w_c += step_c Sigma x
        if self.keep < 1.0:
            self.shrink(sqrt(self.keep))
            self.covariance.forget(self.keep)
        return 1


@cython.cclass
class DiagonalRule(ArowRule):
    """The same update with one variance per feature and no covariances.

    With forgetting, the variance of feature i is prior - decay reductions_i, so that a part of it is
    forgotten by a change of the decay alone.
    """

    sigma: cython.p_double  # d: the variances, or with forgetting the reductions
    decay: cython.p_double  # 1, with forgetting only

    def __init__(
        self,
        d: int,
        single: bool,
        intercept: bool,
        r: float,
        loss: str,
        prior: float,
        forget: float,
        outputs: int,
        regression: bool = False,
    ) -> None:
        ArowRule.__init__(self, d, single, intercept, r, loss, prior, forget, outputs, regression)
        if forget == 1.0:
            self.extra |= {"sigma": np.full(self.d, prior)}
        else:
            self.extra |= {"reductions": np.zeros(self.d), "decay": np.ones(1)}
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        ArowRule.set_pointers(self)
        if "sigma" in self.extra:
            self.sigma = address(self.extra["sigma"])
        elif "reductions" in self.extra:
            self.sigma, self.decay = address(self.extra["reductions"]), address(self.extra["decay"])

    def variances(self) -> Floats:
        """Return the variance of each feature."""
        if "sigma" in self.extra:
            sigma: Floats = self.extra["sigma"].copy()
            return sigma
        least = (1.0 - self.keep) * self.prior
        variances: Floats = np.maximum(self.prior - self.extra["decay"] * self.extra["reductions"], least)
        return variances

    def check_own_state(self, extra: dict[str, Floats]) -> None:
        """Check the variances, and the errors of a regression."""
        ArowRule.check_own_state(self, extra)
        if "sigma" in extra:
            require(np.all(extra["sigma"] >= 0.0), "variances should not be below 0")
            return
        require(0.0 < extra["decay"][0] <= 1.0, "decay should be above 0 and at most 1")
        shares = extra["decay"] * extra["reductions"] / self.prior
        require(np.all((shares >= 0.0) & (shares < 1.0 + 1e-9)), "variances should be at most the prior")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def variance(self, i: cython.Py_ssize_t) -> cython.double:
        """Return the variance of feature i."""
        if self.keep == 1.0:
            return self.sigma[i]
        # No variance is below the part of the prior that the last update added, except by rounding.
        return max(self.prior - self.decay[0] * self.sigma[i], (1.0 - self.keep) * self.prior)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        c: cython.Py_ssize_t
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        v: cython.double = 0.0
        for k in range(self.n):
            v += self.variance(self.place(k)) * self.x[k] * self.x[k]
        noise: cython.double = self.choose(v)
        # The step is along Sigma x, so `add`, which steps along x, cannot be used.
        along: cython.double = 0.0
        square: cython.double = 0.0
        step: cython.double
        for c in range(self.outputs):
            for k in range(self.n):
                i = self.place(k)
                step = self._steps[c] * self.variance(i) * self.x[k]
                along += step * self.factor * self._weights[c * self.d + i]
                square += step * step
        after: cython.double = self.norm2 + 2.0 * along + square
        self.check(v, after)
        for c in range(self.outputs):
            step = self._steps[c] / self.factor
            if step != 0.0:
                for k in range(self.n):
                    i = self.place(k)
                    self.set_weight(
                        c * self.d + i,
                        self._weights[c * self.d + i] + step * self.variance(i) * self.x[k],
                    )
        self.narrow(noise)
        self.moved(after)
        if self.keep < 1.0:
            self.shrink(sqrt(self.keep))
            self.forget()
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def narrow(self, noise: cython.double) -> cython.void:
        """Observe x: 1 / Sigma_ii += x_i^2 / noise."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        variance: cython.double
        for k in range(self.n):
            i = self.place(k)
            variance = self.variance(i)
            variance *= noise / (noise + variance * self.x[k] * self.x[k])
            self.sigma[i] = variance if self.keep == 1.0 else (self.prior - variance) / self.decay[0]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def forget(self) -> cython.void:
        """Replace Sigma by keep Sigma + (1 - keep) prior."""
        i: cython.Py_ssize_t
        self.decay[0] *= self.keep
        if self.decay[0] < SMALLEST_DECAY:
            for i in range(self.d):
                self.sigma[i] *= self.decay[0]
            self.decay[0] = 1.0


@cython.cfunc
def address(array: object) -> cython.p_double:
    """Return a pointer to the first number of an array."""
    place: cython.size_t = np.asarray(array).ctypes.data
    return cython.cast(cython.p_double, place)


@cython.annotation_typing(False)
def diagonal_rule(rule: FullRule) -> DiagonalRule:
    """Return the rule with the same weights and variances, but without covariances."""
    state = cast(State, rule.__getstate__())
    diagonal = DiagonalRule(*rule.args)
    sigma = state["covariance"].matrix().diagonal().copy()
    prior = state["covariance"].prior
    forgetting = {"reductions": np.clip(prior - sigma, 0.0, prior), "decay": np.ones(1)}
    extra = {"sigma": sigma} if "sigma" in diagonal.extra else forgetting
    diagonal.__setstate__(state | {"covariance": None, "extra": state["extra"] | extra})
    return diagonal
