"""Votes over yes-or-no advice: Halving, Weighted Majority and its randomized form."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from budgetron.experts._base import ExpertAlgorithm, Vector, before_each


class WeightedMajority(ExpertAlgorithm):
    """A weighted vote in which an expert that misled it loses a share of its weight (004 figure 8.3).

    For yes-or-no advice when some expert is good but none is perfect and predictions must not be
    random. An adversary can make any deterministic vote err in every round; where that
    matters, use `RandomizedWeightedMajority`.

    Parameters
    ----------
    beta : float in [0, 1), default=0.5
        What remains of the weight of an expert that was wrong when the vote was. Smaller
        punishes harder; at 0 this is `Halving`.

    Notes
    -----
    A round costs O(N). With m* mistakes of the best expert, the vote makes at most
    (log N + m* log(1 / beta)) / log(2 / (1 + beta)) (004 Theorem 8.3).

    Weights change on the vote's mistakes only, as in the figure; a tie predicts 1. The
    votes of experts of equal weight are counted before they are weighed, so that a tie is a tie.

    Examples
    --------
    >>> from budgetron.experts import WeightedMajority
    >>> vote = WeightedMajority(beta=0.5)
    >>> vote.predict([1, 0, 0])
    0.0
    >>> vote.update([1, 0, 0], 1)
    1.0
    >>> vote.weights_
    array([0.5 , 0.25, 0.25])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "beta": [Interval(Real, 0.0, 1.0, closed="left")]
    }
    _binary = True

    def __init__(self, beta: float = 0.5) -> None:
        self.beta = beta

    def _start(self) -> None:
        self._errors = np.zeros(self.n_experts_, np.int64)  # on rounds in which the vote erred

    def _segment(self, rounds: int) -> int:
        return 1  # the next weights depend on the vote

    def _log_weights(self, losses: Vector) -> Vector:
        logs: Vector = np.where(self._errors == 0, 0.0, -np.inf)
        if self._beta() > 0.0:
            logs = self._errors * np.log(self._beta())
        return logs[None, :]

    def _beta(self) -> float:
        return self.beta

    def _predict_rows(self, weights: Vector, advice: Vector) -> Vector:
        errors, equals = np.unique(self._errors, return_inverse=True)
        net = np.bincount(equals, weights=np.where(advice[0] == 1.0, 1.0, -1.0))
        if self._beta() == 0.0 and errors[0] > 0:
            net[:] = 0.0  # nobody is left
        return np.array([1.0 if net @ self._beta() ** (errors - errors[0]) >= 0.0 else 0.0])

    def _own_losses(self, predictions: Any, outcomes: Any, weights: Vector, losses: Vector) -> Vector:
        wrong: Vector = (predictions != outcomes).astype(np.float64)
        return wrong

    def _absorb(self, losses: Vector, own: Vector) -> None:
        if own[0] == 1.0:
            self._errors = self._errors + losses[0].astype(np.int64)

    def play_losses(self, losses: Any) -> Any:
        """Not to be had: a vote needs advice, for its weights change on its own mistakes."""
        raise TypeError(f"{type(self).__name__} votes on advice; use play(advice, outcomes)")


class Halving(WeightedMajority):
    """A vote from which every expert that misled it is dropped (004 figure 8.2).

    For yes-or-no advice when one expert is known to be always right; then it makes at most
    log2 N mistakes (004 Theorem 8.1). If none is, all are dropped in the end and it
    predicts 1 for ever.

    Notes
    -----
    A round costs O(N). Experts are dropped on the vote's mistakes only; a tie predicts 1.

    Examples
    --------
    >>> from budgetron.experts import Halving
    >>> vote = Halving()
    >>> vote.update([1, 1, 0], 0)
    1.0
    >>> vote.weights_
    array([0., 0., 1.])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init__(self) -> None:
        pass

    def _beta(self) -> float:
        return 0.0


class RandomizedWeightedMajority(ExpertAlgorithm):
    """Follow an expert drawn by weight; one that is wrong loses a share of it (004 figure 8.4).

    For yes-or-no advice against any adversary: the expected number of mistakes is close to the
    best expert's, which no deterministic vote can promise.

    Parameters
    ----------
    beta : float in [1/2, 1), default=0.5
        What remains of the weight of an expert that was wrong. For T rounds known in advance
        max(1/2, 1 - sqrt(log N / T)) is best.
    random_state : int, RandomState or None, default=None
        Seed of the draws.

    Notes
    -----
    A round costs O(N). `losses` are expected losses; they do not depend on the draws. They are at most
    log N / (1 - beta) + (2 - beta) (best expert's loss) in all, and with the best beta the
    regret is at most 2 sqrt(T log N) (004 Theorem 8.4).

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron.experts import RandomizedWeightedMajority
    >>> losses = np.tile([[0, 1, 1]], (10, 1))
    >>> trace = RandomizedWeightedMajority(beta=0.5).play_losses(losses)
    >>> round(float(trace.losses.sum()), 3), trace.best_expert
    (1.927, 0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "beta": [Interval(Real, 0.5, 1.0, closed="left")],
        "random_state": ["random_state"],
    }
    _binary = True

    def __init__(self, beta: float = 0.5, random_state: int | np.random.RandomState | None = None) -> None:
        self.beta = beta
        self.random_state = random_state

    def _start(self) -> None:
        self._totals = np.zeros(self.n_experts_)
        self._random = check_random_state(self.random_state)

    def _log_weights(self, losses: Vector) -> Vector:
        weights: Vector = before_each(losses, self._totals) * np.log(self.beta)
        return weights

    def _predict_rows(self, weights: Vector, advice: Vector) -> Vector:
        draws = self._random.random_sample(len(advice))
        chosen = (weights.cumsum(axis=1) < draws[:, None] * weights.sum(axis=1, keepdims=True)).sum(axis=1)
        followed: Vector = advice[np.arange(len(advice)), np.minimum(chosen, self.n_experts_ - 1)]
        return followed

    def _absorb(self, losses: Vector, own: Vector) -> None:
        self._totals = self._totals + losses.sum(axis=0)
