"""Second-order novelty detection: kernel regression of the constant 1 in the span of a few supports."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from sklearn.utils._param_validation import Interval

from budgetron._base.gaussian_regressor import GAUSSIAN_PARAMETERS
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.parameters import MOST_SUPPORTS
from budgetron._core.rule import Rule
from budgetron.kernelized._second_order_rule import SecondOrderRule
from budgetron.kernels import KernelFunction, Normalized


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class SecondOrderDetector(OnlineDetector):
    """Novelty detection by a Gaussian process that learns the constant 1 in the span of a few supports.

    Its score f(x) is about 1 where rows were seen and falls to 0 where there were none. Other than a density,
    it does not favor the places where most rows are. This is the default choice for novelty detection here.

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports. When it is reached, new supports come only by exchange, as with
        `SecondOrderRegressor`.
    threshold : float, default=0.02
        A row becomes a support if the squared distance of its image from the span of the supports is above
        this. The distance is at most k(x, x), which is 1 for "rbf".
    r : float, default=0.1
        Variance of the noise. With a larger r, rare rows have lower scores.
    forget : float, default=1.0
        The part of what was learned that each row keeps, for streams that change; see `SecondOrderRegressor`.
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
    This is `SecondOrderRegressor` without its linear part, with the target 1 for every row and a prior of
    variance 1. Without a budget and with the threshold 0, f(x) is k' (K + r I)^-1 1 over all rows: the mean
    of a Gaussian process, and a one-class SVM with squared loss.

    The threshold `offset_` is a quantile of the scores of the last 1000 rounds. Its level falls with each
    alarm and rises in all other rounds, so that at most T false_alarm_rate + 11 of T rounds are alarms, for
    any stream (`bounds.false_alarms`; `certify` evaluates it). They are false alarms if all rows that are
    learned are normal.

    Cost per round, with m supports: one kernel row, O(m d), and O(m^2) for the update. Memory: 8 m^2 bytes,
    the supports, and 16 kB for scores.

    References
    ----------
    Kemmler, Rodner, Wacker, Denzler: One-class Classification with Gaussian Processes (2013), for the mean
    as a score. Csato, Opper: Sparse On-Line Gaussian Processes (2002). Gibbs, Candes: Adaptive Conformal
    Inference under Distribution Shift (2021), for the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import SecondOrderDetector
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = SecondOrderDetector(gamma=0.5)
    >>> model.progressive_fit(X)
    DetectionTrace(2000 rounds, 10 alarms, 55 supports)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = OnlineDetector._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "threshold": [Interval(Real, 0.0, None, closed="left")],
        "r": GAUSSIAN_PARAMETERS["r"],
        "forget": GAUSSIAN_PARAMETERS["forget"],
    }
    _joint: ClassVar[bool] = True

    def __init__(
        self,
        budget: int = 300,
        threshold: float = 0.02,
        r: float = 0.1,
        *,
        forget: float = 1.0,
        false_alarm_rate: float = 0.01,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        OnlineDetector.__init__(self, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.threshold = threshold
        self.r = r
        self.forget = forget
        self.false_alarm_rate = false_alarm_rate

    def _rules(self, outputs: int, generators: Sequence[np.random.Generator]) -> list[Rule]:
        scale, prior = 1.0, 1.0  # the scale of features has no effect without a linear part
        rule = SecondOrderRule(
            self.budget,
            self.threshold,
            self.r,
            False,
            scale,
            "squared",
            prior,
            self.forget,
            outputs,
            regression=True,
        )
        return [rule]
