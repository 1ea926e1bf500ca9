"""Exponential weights (Mohri et al., section 8.2.4)."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron import bounds
from budgetron.experts._base import (
    BLOCK,
    LOSSES,
    Constraints,
    ExpertAlgorithm,
    Loss,
    Vector,
    before_each,
)
from budgetron.experts._periods import period_length, rounds_left, starts_period


class ExponentialWeights(ExpertAlgorithm):
    """The weighted average of the experts, with weights exp(-eta * total loss).

    Use it for advice that is a number in [0, 1]. It is deterministic, works for any convex loss in [0, 1],
    and the default `eta` needs no tuning.

    Parameters
    ----------
    eta : float, "doubling" or "anytime", default="anytime"
        Learning rate. For N experts and a number of rounds T known in advance, sqrt(8 log N / T) is the best
        number. "doubling" uses this rate in periods of 1, 2, 4, ... rounds and resets the weights in between.
        "anytime" uses sqrt(8 log N / t) in round t, and all losses so far.
    loss : {"absolute", "squared"} or callable, default="absolute"
        Loss of a prediction given the outcome. A callable takes two arrays; its values must be in [0, 1] and
        convex in the prediction.

    Notes
    -----
    A round costs O(N). The regret is at most log N / eta + eta T / 8 if `eta` is a number (Theorem 8.6 of
    Foundations of Machine Learning), and at most sqrt(2) / (sqrt(2) - 1) sqrt(T log N / 2) + sqrt((log N) /
    2) for "doubling" (Theorem 8.7). For "anytime" it is at most 2 sqrt(T log N / 2) + sqrt((log N) / 8)
    (Cesa-Bianchi and Lugosi, Theorem 2.3). With `play_losses` the algorithm's loss is the expected loss; the
    same bounds apply.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.2.4.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron.experts import ExponentialWeights
    >>> rng = np.random.default_rng(0)
    >>> outcomes = rng.random(1000)
    >>> advice = np.clip(outcomes[:, None] + rng.normal(size=(1000, 3)) * [0.1, 0.2, 0.4], 0, 1)
    >>> trace = ExponentialWeights().play(advice, outcomes)
    >>> trace.best_expert, round(trace.regret, 2)
    (0, -2.51)
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "eta": [StrOptions({"doubling", "anytime"}), Interval(Real, 0.0, None, closed="neither")],
        "loss": [StrOptions(set(LOSSES)), callable],
    }
    _averages = True

    def __init__(self, eta: float | str = "anytime", loss: str | Loss = "absolute") -> None:
        self.eta = eta
        self.loss = loss

    def _start(self) -> None:
        # Losses since the first round, or since the first round of the period.
        self._totals = np.zeros(self.n_experts_)

    @property
    def regret_bound_(self) -> float:
        """Upper bound of `regret_`, for convex losses in [0, 1]."""
        experts, rounds = len(self.expert_losses_), self.rounds_
        if self.eta == "anytime":
            return bounds.exponential_weights_anytime(experts, rounds)
        if self.eta == "doubling":
            return bounds.exponential_weights_doubling(experts, rounds)
        return bounds.exponential_weights(experts, rounds, float(self.eta))

    def _block_rounds(self, rounds: int) -> int:
        if self.eta != "doubling":
            return min(rounds, BLOCK)
        return min(rounds, BLOCK, rounds_left(self.rounds_ + 1))

    def _rates(self, rounds: int) -> Vector:
        t = np.arange(self.rounds_ + 1, self.rounds_ + 1 + rounds)
        if self.eta == "anytime":
            horizon = t
        elif self.eta == "doubling":
            horizon = np.full(rounds, period_length(self.rounds_ + 1))  # eta_k = sqrt(8 log N / 2^k)
        else:
            return np.full(rounds, float(self.eta))
        rates: Vector = np.sqrt(8.0 * np.log(self.n_experts_) / horizon)
        return rates

    def _log_weights(self, losses: Vector) -> Vector:
        weights: Vector = -self._rates(len(losses))[:, None] * before_each(losses, self._totals)  # (8.14)
        return weights

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        self._totals = self._totals + losses.sum(axis=0)
        if self.eta == "doubling" and starts_period(self.rounds_ + len(losses) + 1):
            self._totals = np.zeros(self.n_experts_)
