"""Online-to-batch conversion: one hypothesis from all hypotheses of a run, with a bound on its risk.

The last hypothesis of an online learner may be a bad one. If the stream is a sample (rows drawn independently
from one distribution), section 8.4 of Mohri et al. shows how to combine all hypotheses into one whose risk is
bounded with high probability by the losses of the run. `learn_until_separated` passes over a separable sample
until the Perceptron has converged.
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
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.parameters import OPTIONAL_BUDGET
from budgetron._base.passes import Convergence, learn_until_separated
from budgetron._base.past_hypotheses import PastHypotheses, blocks_for_margins
from budgetron._base.protocol import HypothesisWithHistory
from budgetron._core.linear import LinearRule
from budgetron._core.rounds import Learner
from budgetron._util.checks import State, require, require_array, require_float
from budgetron._util.types import Codes, Floats, Ints, Matrix

__all__ = ["AveragedClassifier", "Convergence", "PenalizedRiskClassifier", "learn_until_separated"]


DELTA = {"delta": [Interval(Real, 0.0, 1.0, closed="neither")]}


class AveragedClassifier(LearnerWrapper):
    """The average of all hypotheses of an online learner.

    More stable than the last hypothesis. Learning takes less than twice the time. Use it to turn a learner
    into a fixed model for other data of the same kind. Do not use it for streams that drift, where the past
    does not predict the future.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner of Budgetron. It is cloned.
    delta : float, default=0.05
        The probability that `risk_bound_` does not hold.
    loss_bound : float, optional
        M of the theorem: an upper bound on the hinge loss of every hypothesis on every possible row. The
        default is 1 + max ||h_t|| max sqrt(k(x, x)) over the rounds so far (twice the product with more than
        two classes). The theorem requires a value that is fixed in advance, so set it if you know one.
    budget : int, optional
        For kernel learners that remove supports: the largest number of removed supports that the average
        keeps, per class. None keeps all of them.

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
    `progressive_fit` and `play` report the learner's own rounds. `decision_function` and
    `predict` use the average (h_1 + ... + h_T) / T, where h_t predicted round t. `evaluate` evaluates the
    average for several rows at once: in round T it is that of at least 64/65 of the first T hypotheses.
    Evaluating it before every row would take hundreds of times as long as learning.

    Only sums that change with an update are stored, so that a round without update has no extra cost. For
    linear learners this is one more weight vector. For kernel learners it is one more coefficient for every
    support *that was ever stored*: a support that is removed from the budget stays in the average; without it
    the theorem would not hold. The expansion is therefore bounded for learners that never remove supports
    (`Projectron` and `ProjectronPlusPlus`, whose average lies in the span of their supports, and `Stoptron`).
    For the others it grows with every update, as the Perceptron does; `nbytes_` includes it.

    If memory is limited, average a Projectron, or set `budget`. There is then room for 2 `budget` removed
    supports. When it is full, `budget` of them are kept, and the sum of the others is projected onto their
    span; this costs O(budget^2) per removal on average. `residual_` bounds the distance of the stored average
    from the average of all hypotheses, and `risk_bound_` includes its effect.

    With probability 1 - delta over the sample, the risk of the average for the hinge loss, and so the
    probability of a mistake, is at most ``risk_bound_`` (Mohri et al., Theorem 8.15, eq. 8.27). The hinge
    loss of learners with large norms is large: a bound above 1 says nothing about mistakes.

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
        | OPTIONAL_BUDGET
        | {"loss_bound": [None, Interval(Real, 0.0, None, closed="neither")]}
    )

    # The average of T hypotheses changes by a share of 1 / T with each round.
    _stale_share: ClassVar[float] = 1 / 64

    _learned_names: ClassVar[frozenset[str]] = LearnerWrapper._learned_names | {
        "total_loss_",
        "largest_loss_",
    }

    total_loss_: float
    largest_loss_: float

    def __init__(
        self,
        learner: OnlineClassifier,
        delta: float = 0.05,
        loss_bound: float | None = None,
        *,
        budget: int | None = None,
    ) -> None:
        self.learner = learner
        self.delta = delta
        self.loss_bound = loss_bound
        self.budget = budget

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.budget is not None and isinstance(self.learner, LinearClassifier):
            raise ValueError(
                f"budget is for kernel learners; the average of {type(self.learner).__name__} is one vector "
                "of weights per class. Set budget to None"
            )

    def _prepare(self, hypothesis: HypothesisWithHistory) -> None:
        if isinstance(hypothesis, Learner):
            hypothesis.keep_average(self.budget or 0)
        else:
            hypothesis.keep_average()
        self.total_loss_ = self.largest_loss_ = 0.0

    def _decide(self, hypothesis: HypothesisWithHistory, X: Matrix) -> Floats:
        return hypothesis.decide_average(X)

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        require(all(one.average is not None for one in hypotheses), "there should be an average")
        limit = self.budget or 0
        require(all(one.average.limit == limit for one in hypotheses), f"the average should keep {limit}")
        require_float(found["total_loss_"], "total loss")
        require_float(found["largest_loss_"], "largest loss")

    def _count(self, X: Matrix, codes: Codes, margins: Floats, start: int) -> None:
        losses = np.maximum(0.0, 1.0 - signed_margin(margins, codes, multiclass=margins.ndim == 2))
        self.total_loss_ += float(losses.sum())
        self.largest_loss_ = max(self.largest_loss_, float(losses.max()))

    @property
    def residual_(self) -> float:
        """Upper bound, up to rounding, of the norm of the difference between the average and what is stored.

        The largest over the classes. At a row x the values differ by at most residual_ sqrt(k(x, x)). It is 0
        without `budget`.
        """
        learners = self._fitted()
        norms = [one.average.residual for one in learners if one.average is not None]
        return max(norms) / self.rounds_

    @property
    def risk_bound_(self) -> float:
        """Upper bound of the expected hinge loss of the average, with probability 1 - delta.

        With `budget` it is the bound of the stored average: residual_ max sqrt(k(x, x)) is added (twice with
        more than two classes), because the hinge loss changes by at most as much as the margin.
        """
        learners, T = self._fitted(), self.rounds_
        norm, length = (sqrt(max(getattr(h.average, name) for h in learners)) for name in ("norm2", "own"))
        functions = 2 if self._n_outputs > 1 else 1  # whose difference is a margin
        M = self.loss_bound
        if M is None:
            M = 1.0 + norm * length * functions
        elif self.largest_loss_ > M:
            raise bounds.AssumptionError(
                f"loss_bound is {M}, but a loss of {self.largest_loss_:.6g} occurred; use a larger loss_bound"
            )
        return bounds.averaged_risk(self.total_loss_, T, self.delta, M) + functions * self.residual_ * length

    def _weights(self, hypothesis: LinearRule) -> Floats:
        return hypothesis.averaged()


class PenalizedRiskClassifier(LearnerWrapper):
    """The hypothesis with the least penalized risk, of all hypotheses of an online learner.

    Each hypothesis is evaluated on all rounds from its own on, with a penalty that is larger if these are
    few. Use it like `AveragedClassifier` if a single hypothesis is needed, or a bound on mistakes for any
    learner.

    Parameters
    ----------
    learner : online learner
        Any kernel or linear learner of Budgetron. It is cloned.
    delta : float, default=0.05
        The probability that `risk_bound_` does not hold. The penalty depends on it, too.

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
    With m_i the mistakes of h_i on rounds i, ..., T, the hypothesis with the least m_i / (T - i +
    1) + sqrt(log(T (T + 1) / delta) / (2 (T - i + 1))) is chosen; the first one, if several are equal.
    Between two updates all h_i are equal, and the best of them is the first, or the first after a mistake
    without an update. Only these candidates are stored.

    With probability 1 - delta over the sample, the error probability of the chosen hypothesis is at most
    ``risk_bound_`` (Mohri et al., eq. 8.31).

    The changes of every update are stored, and for kernel learners every support that was ever stored: memory
    grows with the number of updates. So does time, because one cumulative sum gives the margins of all
    hypotheses. In addition to the learner's own cost, a round costs O(updates) for kernel learners (for the
    Projectrons, whose updates change all coefficients, O(updates x supports)) and O(updates x non-zeros) for
    linear ones.

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
        runs = [PastHypotheses(learner, c) for learner in self._learners for c in range(learner.n_outputs)]
        births = np.unique(np.concatenate([run.rounds for run in runs])) + 1
        losses = np.zeros(len(births), np.int64)
        losses[: len(self.losses_)] = self.losses_
        for block in blocks_for_margins(len(births) * len(runs), X.shape[0]):
            values = [run.margins(X[block], births) for run in runs]
            if len(runs) > 1:
                wrong = signed_margin(np.stack(values, axis=-1), codes[block], multiclass=True) <= 0.0
            else:
                wrong = signed_margin(values[0], codes[block], multiclass=False) <= 0.0
            t = start + np.arange(block.start, block.stop)
            young = int(np.searchsorted(births, t[0]))  # these candidates start within this block
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
        """The share of mistakes of each candidate on the rounds from its own on, plus the penalty.

        Infinite for a candidate that has predicted no round yet.
        """
        self._fitted()
        T = self.rounds_
        left = T - self.births_
        with np.errstate(divide="ignore"):
            penalty = np.sqrt(log(T * (T + 1) / self.delta) / (2 * left))
        return np.where(left > 0, self.losses_ / np.maximum(left, 1) + penalty, np.inf)

    @property
    def risk_bound_(self) -> float:
        """Upper bound of the error probability of the chosen hypothesis, with probability 1 - delta."""
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
        birth = int(self.births_[self.chosen_])
        values = np.empty((X.shape[0], hypothesis.n_outputs))
        for c in range(hypothesis.n_outputs):
            run = PastHypotheses(hypothesis, c)
            for block in blocks_for_margins(len(run), X.shape[0]):
                values[block, c] = run.decide(birth, X[block])
        return values if hypothesis.n_outputs > 1 else values[:, 0]

    def _weights(self, hypothesis: LinearRule) -> Floats:
        birth, weights = int(self.births_[self.chosen_]), np.zeros((hypothesis.n_outputs, hypothesis.d))
        for c in range(hypothesis.n_outputs):
            found = PastHypotheses(hypothesis, c).weights(birth)
            weights[c, : len(found)] = found
        return weights
