"""On-line to batch conversion: one hypothesis from all that a learner had, with a bound on its risk.

An online learner's last hypothesis may be a bad one. If the stream is a sample (rows drawn
independently from one distribution), 004 section 8.4 tells how to make one hypothesis of
them all whose risk is bounded with high probability, by what the learner lost on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from budgetron import bounds
from budgetron._base.batches import signed_margin
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.past_hypotheses import Hypotheses, blocks
from budgetron._base.protocol import HypothesisWithHistory
from budgetron._base.types import Codes, Floats, Ints, Matrix
from budgetron._core.linear import LinearRule
from budgetron._util.checks import State, require, require_array, require_float

__all__ = ["AveragedClassifier", "PenalizedRiskClassifier"]


DELTA = {"delta": [Interval(Real, 0.0, 1.0, closed="neither")]}


class AveragedClassifier(LearnerWrapper):
    """The average of all hypotheses that an online learner has had.

    Steadier than the last hypothesis, at hardly any cost: use it to turn a learner into a
    model that is frozen and applied to other data of the same kind. Not for streams that
    drift, where the past does not speak for the future.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner of Budgetron. It is cloned.
    delta : float, default=0.05
        The probability with which `risk_bound_` may fail.
    loss_bound : float, optional
        M of the theorem: a number that the hinge loss of no hypothesis can exceed on any
        row that may come. By default 1 + max ||h_t|| max sqrt(k(x, x)) over the rounds seen
        (twice the product with more than two classes). Strictly the theorem wants it known
        beforehand: give it if you do know it.

    Attributes
    ----------
    learner_ : online learner
        The learner after its last round.
    total_loss_ : float
        Sum over the rounds of the hinge loss max(0, 1 - y h_t(x_t)); with more than two classes,
        of max(0, 1 - (right margin - best other margin)).
    largest_loss_ : float
        The largest of them.

    Notes
    -----
    `progressive_fit` and `play` report the learner's own rounds; `decision_function` and `predict`
    speak for the average (h_1 + ... + h_T) / T, where h_t predicted round t. `evaluate` asks the average
    before every round, row by row, which takes hundreds of times as long as to learn.

    What is kept: sums that move only with an update, so that a round without one costs nothing more.
    For linear learners that is one more weight vector. For kernel learners it is one more
    coefficient for each support *that there ever was*: what leaves the budget stays in the
    average, and leaving it out would give up the theorem. So the expansion is bounded
    for learners that never remove (`Projectron` and `ProjectronPlusPlus`, whose average lies in
    the span of their supports, and `Stoptron`), and for the others it grows with every update,
    as the Perceptron does: `nbytes_` counts it. If memory is short, average a Projectron.

    With probability 1 - delta over the sample, the risk of the average for the hinge loss (and so
    the probability of a mistake) is at most ``risk_bound_`` (004 Theorem 8.15, eq. 8.27). The
    hinge loss of learners with large norms is large: a bound above 1 says nothing
    about mistakes.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import Projectron
    >>> from budgetron.batch import AveragedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> learner = Projectron(gamma=0.001, eta=0.3)
    >>> model = AveragedClassifier(learner).fit(X[:1000], y[:1000] % 2)
    >>> round(model.score(X[1000:], y[1000:] % 2), 3)
    0.946
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        LearnerWrapper._parameter_constraints
        | DELTA
        | {
            "loss_bound": [None, Interval(Real, 0.0, None, closed="neither")],
        }
    )

    _learned_names: ClassVar[frozenset[str]] = LearnerWrapper._learned_names | {
        "total_loss_",
        "largest_loss_",
    }

    total_loss_: float
    largest_loss_: float

    def __init__(
        self, learner: OnlineClassifier, delta: float = 0.05, loss_bound: float | None = None
    ) -> None:
        self.learner = learner
        self.delta = delta
        self.loss_bound = loss_bound

    def _prepare(self, hypothesis: HypothesisWithHistory) -> None:
        hypothesis.keep_average()
        self.total_loss_ = self.largest_loss_ = 0.0

    def _decide(self, hypothesis: HypothesisWithHistory, X: Matrix) -> Floats:
        return hypothesis.decide_average(X)

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        require(all(one.average is not None for one in hypotheses), "there should be an average")
        require_float(found["total_loss_"], "total loss")
        require_float(found["largest_loss_"], "largest loss")

    def _count(self, X: Matrix, codes: Codes, margins: Floats, start: int) -> None:
        losses = np.maximum(0.0, 1.0 - signed_margin(margins, codes, multiclass=margins.ndim == 2))
        self.total_loss_ += float(losses.sum())
        self.largest_loss_ = max(self.largest_loss_, float(losses.max()))

    @property
    def risk_bound_(self) -> float:
        """What the expected hinge loss of the average does not exceed, with probability 1 - delta."""
        learners, T = self._fitted(), self.rounds_
        M = self.loss_bound
        if M is None:
            norm, length = (
                sqrt(max(getattr(h.average, name) for h in learners)) for name in ("norm2", "own")
            )
            M = 1.0 + norm * length * (2 if len(learners) > 1 else 1)
        elif self.largest_loss_ > M:
            raise bounds.AssumptionError(
                f"loss_bound is {M}, and there was a loss of {self.largest_loss_:.6g}"
            )
        return bounds.averaged_risk(self.total_loss_, T, self.delta, M)

    def _weights(self, hypothesis: LinearRule) -> Floats:
        return hypothesis.averaged()


class PenalizedRiskClassifier(LearnerWrapper):
    """Of all hypotheses that an online learner has had, the one with the least penalized risk.

    Each hypothesis is tried on all rounds from its own on, and charged for how few these
    are. Use it like `AveragedClassifier` where a single hypothesis is wanted, or a bound on mistakes
    that says something for any learner.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner of Budgetron. It is cloned.
    delta : float, default=0.05
        The probability with which `risk_bound_` may fail. It enters the penalty, too.

    Attributes
    ----------
    learner_ : online learner
        The learner after its last round.
    losses_ : ndarray of shape (n_candidates,)
        Mistakes of each candidate on the rounds from its own on.
    births_ : ndarray of shape (n_candidates,)
        The 0-based round that each candidate predicted first.

    Notes
    -----
    With m_i the mistakes of h_i on rounds i, ..., T, the hypothesis with the least
    m_i / (T - i + 1) + sqrt(log(T (T + 1) / delta) / (2 (T - i + 1))) is chosen, the first if
    several. Between two updates all h_i are the same, and the first of them, or the first
    after a mistake without an update, is always the best: only these candidates are kept.

    With probability 1 - delta over the sample, the chosen hypothesis errs with probability at
    most ``risk_bound_`` (004 eq. 8.31).

    What is kept: the changes of every update, and for kernel learners every support that there
    ever was; memory follows the number of updates. So does time: one running sum gives the margins of all
    hypotheses, so that a round costs, on top of the learner's, O(updates) for kernel learners (for
    the Projectrons, whose updates change all coefficients, O(updates x supports)) and O(updates x
    non-zeros) for linear ones.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, exercise 8.10.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import KernelPerceptron
    >>> from budgetron.batch import PenalizedRiskClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PenalizedRiskClassifier(KernelPerceptron(gamma=0.001)).fit(X[:1000], y[:1000] % 2)
    >>> round(model.score(X[1000:], y[1000:] % 2), 3), round(model.risk_bound_, 3)
    (0.93, 0.685)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = LearnerWrapper._parameter_constraints | DELTA

    _learned_names: ClassVar[frozenset[str]] = LearnerWrapper._learned_names | {"losses_", "births_"}

    losses_: Ints
    births_: Ints

    def __init__(self, learner: OnlineClassifier, delta: float = 0.05) -> None:
        self.learner = learner
        self.delta = delta

    def _prepare(self, hypothesis: HypothesisWithHistory) -> None:
        hypothesis.keep_journal()
        self.losses_ = np.zeros(1, np.int64)
        self.births_ = np.zeros(1, np.int64)

    def _count(self, X: Matrix, codes: Codes, margins: Floats, start: int) -> None:
        runs = [Hypotheses(learner) for learner in self._learners]
        births = np.unique(np.concatenate([run.rounds for run in runs])) + 1
        losses = np.zeros(len(births), np.int64)
        losses[: len(self.losses_)] = self.losses_
        for piece in blocks(len(births) * len(runs), X.shape[0]):
            values = [run.margins(X[piece], births) for run in runs]
            if len(runs) > 1:
                wrong = signed_margin(np.stack(values, axis=-1), codes[piece], multiclass=True) <= 0.0
            else:
                wrong = signed_margin(values[0], codes[piece], multiclass=False) <= 0.0
            t = start + np.arange(piece.start, piece.stop)
            young = int(np.searchsorted(births, t[0]))  # from here on, born in this piece
            wrong[young:] &= births[young:, None] <= t
            losses += np.count_nonzero(wrong, axis=1)
        self.births_, self.losses_ = births, losses

    @property
    def chosen_(self) -> int:
        """The candidate with the least penalized risk."""
        self._fitted()
        return int(np.argmin(self.penalized_risks_))

    @property
    def penalized_risks_(self) -> Floats:
        """Each candidate's share of mistakes on the rounds from its own on, and the penalty for their number.

        One that has predicted no round yet has none, and is infinite.
        """
        self._fitted()
        T = self.rounds_
        left = T - self.births_
        with np.errstate(divide="ignore"):
            penalty = np.sqrt(log(T * (T + 1) / self.delta) / (2 * left))
        return np.where(left > 0, self.losses_ / np.maximum(left, 1) + penalty, np.inf)

    @property
    def risk_bound_(self) -> float:
        """What the probability that the chosen one errs does not exceed, with probability 1 - delta."""
        return bounds.penalized_risk(self.mistakes_, self.rounds_, self.delta)

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        require(all(one.journal is not None for one in hypotheses), "there should be a journal")
        births = np.unique(np.concatenate([one.journal.rounds[: one.journal.n] for one in hypotheses])) + 1
        require_array(found["losses_"], np.int64, births.shape, "losses")
        require(
            np.array_equal(require_array(found["births_"], np.int64, births.shape, "births"), births),
            "births are not those of the journal",
        )

    def _decide(self, hypothesis: HypothesisWithHistory, X: Matrix) -> Floats:
        run, birth = Hypotheses(hypothesis), int(self.births_[self.chosen_])
        values = np.empty(X.shape[0])
        for piece in blocks(len(run), X.shape[0]):
            values[piece] = run.decide(birth, X[piece])
        return values

    def _weights(self, hypothesis: HypothesisWithHistory) -> Floats:
        return self._decide(hypothesis, np.eye(self.n_features_in_, dtype=hypothesis.dtype))
