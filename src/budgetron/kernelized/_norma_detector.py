"""NORMA for novelty detection: gradient descent on the loss of the one-class SVM."""

from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import THRESHOLD, Rule
from cython.cimports.libc.math import fabs
from sklearn.utils._param_validation import Interval

from budgetron._base.online_detector import OnlineDetector
from budgetron._base.parameters import MOST_SUPPORTS
from budgetron._util.checks import require, require_float
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class NormaNoveltyRule(Rule):
    """In each round: f = (1 - eta) f, plus eta k(x, .) if f(x) < rho; rho follows the nu-quantile of f(x)."""

    eta: cython.double
    nu: cython.double
    rho: cython.double

    def __init__(self, budget: int, eta: float, nu: float) -> None:
        Rule.__init__(self, budget, ledger=("threshold", "removed", "norm"))
        self.eta = eta
        self.nu = nu
        self.rho = 0.0

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = Rule.__getstate__(self) | {"rho": self.rho}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        Rule.__setstate__(self, state)
        self.rho = state["rho"]

    def check_own_state(self, state: dict[str, Any], capacity: int) -> dict[str, Any]:
        """Check rho."""
        require(abs(require_float(state.get("rho"), "rho")) < 1e90, "rho should be moderate")
        return state

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        # The loss is max(0, rho - f(x)) - nu rho, and the regularization ||f||^2 / 2. Rounding is no loss.
        loses: cython.bint = self.margin < self.rho - self.tie_share() * fabs(self.rho)
        self.note(THRESHOLD, self.rho)
        self.shrink(1.0 - self.eta)
        if loses:
            self.add(self.eta)
            if self.size() > self.budget:
                self.remove(0)
            self.rho -= self.eta * (1.0 - self.nu)
        else:
            self.rho += self.eta * self.nu
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class NormaDetector(OnlineDetector):
    """Novelty detection by gradient descent on the loss of the one-class SVM (NORMA).

    Its score f(x) is a weighted mean of the kernel values of x and recent rows: high where rows are dense.
    Use it as a baseline, or for streams that change: old rows lose weight. `SecondOrderDetector` separates
    unusual rows better on most streams (see the page *Find unusual rows*).

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports. With more, the oldest one is removed; its coefficient has decayed by then.
    eta : float, default=0.01
        Step size: each round multiplies f by 1 - eta. A row has lost most of its weight after 3 / eta rounds.
    nu : float, default=0.5
        The share of rows with f(x) below rho, in the long run. These rows become supports.
    false_alarm_rate : float, default=0.01
        The long-run share of alarms among the rows that are learned; see the notes.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`. Features should have similar scales.
    n_jobs : int, default=None
        Threads that compute the kernel values of a batch. None means 1, -1 all cores.

    Attributes
    ----------
    offset_ : float
        The threshold of the scores; rows below are alarms.
    alarms_ : int
        Number of rounds whose row was an alarm.

    Notes
    -----
    The loss of a row is max(0, rho - f(x)) - nu rho, and the regularization ||f||^2 / 2. Gradient steps of
    size eta set f = (1 - eta) f in each round, and in rounds with f(x) < rho::

        f += eta k(x, .),     rho -= eta (1 - nu)

    In all other rounds, rho += eta nu. Both start at 0.

    rho decides what is learned, not what is an alarm. The threshold `offset_` is a quantile of the scores of
    the last 1000 rounds. Its level falls with each alarm and rises in all other rounds, so that at most
    T false_alarm_rate + 11 of T rounds are alarms, for any stream (`bounds.false_alarms`; `certify` evaluates
    it). They are false alarms if all rows that are learned are normal.

    Cost per round: one kernel row, O(m d) with m supports. Memory: O(m d), and 16 kB for scores.

    References
    ----------
    Kivinen, Smola, Williamson: Online Learning with Kernels (2004), on novelty detection. Gibbs, Candes:
    Adaptive Conformal Inference under Distribution Shift (2021), for the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import NormaDetector
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = NormaDetector(gamma=0.5)
    >>> model.progressive_fit(X)
    DetectionTrace(2000 rounds, 14 alarms, 300 supports)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = OnlineDetector._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "eta": [Interval(Real, 0.0, 1.0, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="neither")],
    }

    def __init__(
        self,
        budget: int = 300,
        eta: float = 0.01,
        nu: float = 0.5,
        *,
        false_alarm_rate: float = 0.01,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        OnlineDetector.__init__(self, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.eta = eta
        self.nu = nu
        self.false_alarm_rate = false_alarm_rate

    def _rule(self, generator: np.random.Generator) -> NormaNoveltyRule:
        return NormaNoveltyRule(self.budget, self.eta, self.nu)
