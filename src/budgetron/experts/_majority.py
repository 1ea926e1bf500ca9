"""Votes over yes-or-no advice: Halving, Weighted Majority and Randomized Weighted Majority."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar, Never

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._util.checks import State, require
from budgetron.experts._base import BLOCK, Constraints, ExpertAlgorithm, Vector, before_each
from budgetron.experts._periods import period_beta, rounds_left, starts_period


class WeightedMajority(ExpertAlgorithm):
    """A weighted vote that reduces the weight of experts who were wrong when the vote was wrong.

    Use it for yes-or-no advice if some expert is good, none is perfect, and predictions must not be random.
    An adversary can make any deterministic vote wrong in every round; if that matters, use
    `RandomizedWeightedMajority`.

    Parameters
    ----------
    beta : float in [0, 1), default=0.5
        The factor by which the weight of an expert is multiplied if both the expert and the vote were wrong.
        With 0 this is `Halving`.

    Notes
    -----
    A round costs O(N). If the best expert makes m* mistakes, the vote makes at most
    (log N + m* log(1 / beta)) / log(2 / (1 + beta)) (Theorem 8.3 of Foundations of Machine Learning).

    Weights change only when the vote is wrong, as in the book. A tie predicts 1. Votes of experts of equal
    weight are counted before they are multiplied by the weight, so that rounding does not break ties.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.3.

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

    _parameter_constraints: ClassVar[Constraints] = {"beta": [Interval(Real, 0.0, 1.0, closed="left")]}
    _binary = True

    def __init__(self, beta: float = 0.5) -> None:
        self.beta = beta

    def _start(self) -> None:
        self._errors = np.zeros(self.n_experts_, np.int64)  # in rounds in which the vote was wrong

    def _block_rounds(self, rounds: int) -> int:
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
            net[:] = 0.0  # all weights are 0
        return np.array([1.0 if net @ self._beta() ** (errors - errors[0]) >= 0.0 else 0.0])

    def _own_losses(
        self, predictions: Vector | None, outcomes: Vector | None, weights: Vector, losses: Vector
    ) -> Vector:
        assert predictions is not None
        wrong: Vector = (predictions != outcomes).astype(np.float64)
        return wrong

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        if own[0] == 1.0:
            self._errors = self._errors + losses[0].astype(np.int64)

    def _check_own_state(self, found: State, rounds: int) -> None:
        errors = found["_errors"]
        require(np.all((errors >= 0) & (errors <= rounds)), "errors should be of rounds played")

    def play_losses(self, losses: ArrayLike) -> Never:
        """Raise an error: the weights change when the vote is wrong, so a vote needs advice."""
        raise TypeError(f"{type(self).__name__} needs advice, not losses; use play(advice, outcomes)")


class Halving(WeightedMajority):
    """A vote that drops every expert that was wrong when the vote was wrong.

    Use it for yes-or-no advice if one expert is known to be always right. It then makes at most log2 N
    mistakes (Theorem 8.1 of Foundations of Machine Learning). If no expert is always right, all are dropped
    in the end, and it predicts 1 from then on.

    Notes
    -----
    A round costs O(N). Experts are dropped only when the vote is wrong. A tie predicts 1.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.2.

    Examples
    --------
    >>> from budgetron.experts import Halving
    >>> vote = Halving()
    >>> vote.update([1, 1, 0], 0)
    1.0
    >>> vote.weights_
    array([0., 0., 1.])
    """

    _parameter_constraints: ClassVar[Constraints] = {}

    def __init__(self) -> None:
        pass

    def _beta(self) -> float:
        return 0.0


class RandomizedWeightedMajority(ExpertAlgorithm):
    """A random expert, drawn by weight; the weight of a wrong expert is reduced.

    Use it for yes-or-no advice on any stream, even one chosen by an adversary. The expected number of
    mistakes is close to that of the best expert, which no deterministic vote can guarantee.

    Parameters
    ----------
    beta : float in [1/2, 1) or "doubling", default=0.5
        The factor by which the weight of a wrong expert is multiplied. For a number of rounds T known in
        advance max(1/2, 1 - sqrt(log N / T)) is best. "doubling" uses this factor in periods of 1, 2, 4, ...
        rounds and resets the weights in between.
    random_state : int, RandomState or None, default=None
        Seed of the random choices.

    Notes
    -----
    A round costs O(N). The `losses` of a trace are expected losses; they do not depend on the random choices.
    Their sum is at most log N / (1 - beta) + (2 - beta) (best expert's loss). With the best beta the regret
    is at most 2 sqrt(T log N) (Theorem 8.4 of Foundations of Machine Learning), and with "doubling" at most
    2 sqrt(log N) (sqrt(2) / (sqrt(2) - 1) sqrt(T) + 1) for every T.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.4 and section 8.2.4.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron.experts import RandomizedWeightedMajority
    >>> losses = np.tile([[0, 1, 1]], (10, 1))
    >>> trace = RandomizedWeightedMajority(beta=0.5).play_losses(losses)
    >>> round(float(trace.losses.sum()), 3), trace.best_expert
    (1.927, 0)
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "beta": [Interval(Real, 0.5, 1.0, closed="left"), StrOptions({"doubling"})],
        "random_state": ["random_state"],
    }
    _binary = True

    def __init__(
        self, beta: float | str = 0.5, random_state: int | np.random.RandomState | None = None
    ) -> None:
        self.beta = beta
        self.random_state = random_state

    def _start(self) -> None:
        self._totals = np.zeros(self.n_experts_)
        self._random = check_random_state(self.random_state)

    def _block_rounds(self, rounds: int) -> int:
        left = rounds_left(self.rounds_ + 1) if self.beta == "doubling" else rounds
        return min(rounds, BLOCK, left)

    def _beta(self) -> float:
        """Return the factor of the coming round."""
        if isinstance(self.beta, str):
            return period_beta(self.rounds_ + 1, self.n_experts_)
        return self.beta

    def _log_weights(self, losses: Vector) -> Vector:
        weights: Vector = before_each(losses, self._totals) * np.log(self._beta())
        return weights

    def _predict_rows(self, weights: Vector, advice: Vector) -> Vector:
        draws = self._random.random_sample(len(advice))
        chosen = (weights.cumsum(axis=1) < draws[:, None] * weights.sum(axis=1, keepdims=True)).sum(axis=1)
        followed: Vector = advice[np.arange(len(advice)), np.minimum(chosen, self.n_experts_ - 1)]
        return followed

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        self._totals = self._totals + losses.sum(axis=0)
        if self.beta == "doubling" and starts_period(self.rounds_ + len(losses) + 1):
            self._totals = np.zeros(self.n_experts_)
