"""Second-order novelty detection: a Gaussian process over the rows seen, in the span of a few supports."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import cython
import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.batches import Batch
from budgetron._base.gaussian_regressor import GAUSSIAN_PARAMETERS
from budgetron._base.kernel_variances import round_variances, variances_at
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.parameters import MOST_SUPPORTS
from budgetron._core.rule import Rule
from budgetron._util.blocks import row_blocks
from budgetron._util.types import Floats, Matrix, Row
from budgetron.kernelized._second_order_rule import SecondOrderRule
from budgetron.kernels import KernelFunction, Normalized

# Rows whose variances are computed together.
BLOCK = 1024


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class SecondOrderDetector(OnlineDetector):
    """Novelty detection by the variance of a Gaussian process in the span of a few supports.

    Its score is near 1 where rows were seen, even few, and falls to 0 where there were none. Unlike a
    density, it does not favor the places where most rows are. This is the default choice for novelty
    detection here.

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports. When it is reached, new supports come only by exchange, as with
        `SecondOrderRegressor`.
    threshold : float, default=0.02
        A row becomes a support if the squared distance of its image from the span of the supports is above
        this. The distance is at most k(x, x), which is 1 for "rbf". A squared distance below 1e-9 k(x, x)
        (1e-4 for float32 rows) counts as 0, because rounding dominates it.
    r : float, default=0.1
        Variance of the noise. With a larger r, rare rows have lower scores.
    forget : float, default=1.0
        The part of what was learned that each row keeps, for streams that change; see `SecondOrderRegressor`.
    score_by : {"variance", "mean"}, default="variance"
        The score of a row: 1 minus the variance of f(x), or the mean f(x); see the notes.
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
    variance 1. Without a budget and with the threshold 0, the variance of f(x) is
    k(x, x) - k' (K + r I)^-1 k over all rows, which does not depend on targets. It is about the squared
    distance of the row's image from the span of all rows. The mean f(x) is k' (K + r I)^-1 1: a one-class SVM
    with squared loss. Between clusters, means of several clusters add up, and unusual rows there get high
    scores; the variance has no such sum. With kernels other than "rbf" the variance grows with k(x, x), and
    scores may be far below 0.

    The threshold `offset_` is a quantile of the scores of the last 1000 rounds. Its level falls with each
    alarm and rises in all other rounds, so that at most T false_alarm_rate + 11 of T rounds are alarms, for
    any stream (`bounds.false_alarms`; `certify` evaluates it). They are false alarms if all rows that are
    learned are normal.

    Cost per round, with m supports: one kernel row, O(m d), and O(m^2) for the update. Memory: 8 m^2 bytes,
    the supports, and 16 kB for scores.

    References
    ----------
    Kemmler, Rodner, Wacker, Denzler: One-class Classification with Gaussian Processes (2013), for the mean
    and the variance as scores. Hoffmann: Kernel PCA for Novelty Detection (2007), for the distance from a
    span. Csato, Opper: Sparse On-Line Gaussian Processes (2002). Gibbs, Candes: Adaptive Conformal
    Inference under Distribution Shift (2021), for the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron import SecondOrderDetector
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> model = SecondOrderDetector(gamma=0.5)
    >>> model.progressive_fit(X)
    DetectionTrace(2000 rounds, 7 alarms, 55 supports)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = OnlineDetector._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "threshold": [Interval(Real, 0.0, None, closed="left")],
        "r": GAUSSIAN_PARAMETERS["r"],
        "forget": GAUSSIAN_PARAMETERS["forget"],
        "score_by": [StrOptions({"variance", "mean"})],
    }
    _joint: ClassVar[bool] = True

    def __init__(
        self,
        budget: int = 300,
        threshold: float = 0.02,
        r: float = 0.1,
        *,
        forget: float = 1.0,
        score_by: str = "variance",
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
        self.score_by = score_by
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

    # ------------------------------------------------------------------ scores of rows

    def _needs_ledger(self) -> bool:
        return self.score_by == "variance"

    def _round_scores(self, batch: Batch, n: int, supports: int) -> Floats:
        if self.score_by == "mean":
            return OnlineDetector._round_scores(self, batch, n, supports)
        assert batch.ledger is not None
        assert batch.sizes is not None
        return 1.0 - round_variances(self._learners[0], batch.ledger[0, :n], batch.sizes[0, :n], supports)

    def _played_score(self, margin: float) -> float:
        if self.score_by == "mean":
            return float(margin)
        return 1.0 - cast(SecondOrderRule, self._learners[0].rule).last_variance()

    def _row_scores(self, X: Matrix) -> Floats:
        if self.score_by == "mean":
            return OnlineDetector._row_scores(self, X)
        scores = np.empty(X.shape[0])
        for block in row_blocks(len(scores), BLOCK):
            part = X[block]
            scores[block] = 1.0 - variances_at(self._learners[0], part.toarray() if issparse(part) else part)
        return scores

    def score_row(self, x: Row) -> float:
        """Return the score of one row of numbers, which is checked less than by `score_samples`."""
        margin = OnlineDetector.score_row(self, x)  # checks the row
        if self.score_by == "mean":
            return margin
        learner = self._learners[0]
        row = x.toarray() if issparse(x) else np.asarray(x)
        row = np.ascontiguousarray(row.reshape(1, -1), learner.dtype)
        kxx = float(learner.kernel.diagonal(row.astype(np.float64))[0])
        rule = cast(SecondOrderRule, learner.rule)
        return 1.0 - float(rule.variance_of(np.asarray(learner.kernel_values(row))[0], kxx))
