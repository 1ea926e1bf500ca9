"""Second-order weights (Mohri et al., exercise 8.7)."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._util.checks import State, require
from budgetron.experts._base import BLOCK, LOSSES, Constraints, ExpertAlgorithm, Loss, Vector, before_each
from budgetron.experts._periods import period_beta, rounds_left, starts_period


class Prod(ExpertAlgorithm):
    """The weighted average of the experts, with weights that each loss multiplies by 1 - (1 - beta) loss.

    This extends `RandomizedWeightedMajority` to losses anywhere in [0, 1]. Use it like `ExponentialWeights`
    if the losses of good experts are small: its regret depends on the sum of the best expert's squared
    losses.

    Parameters
    ----------
    beta : float in [1/2, 1) or "doubling", default=0.5
        The factor by which a loss of 1 multiplies a weight. For a number of rounds T known in advance
        max(1/2, 1 - sqrt(log N / T)) is best. "doubling" uses this factor in periods of 1, 2, 4, ... rounds
        and resets the weights in between.
    loss : {"absolute", "squared"} or callable, default="absolute"
        Loss of a prediction given the outcome. A callable takes two arrays; its values must be in [0, 1].

    Notes
    -----
    A round costs O(N). The algorithm of the book is randomized: the `losses` of a trace are the expected
    losses of an expert drawn by weight. The weighted average that `predict` returns has no larger loss if the
    loss is convex. With the best beta the regret is at most 2 sqrt(T log N), and with "doubling" at most
    2 sqrt(log N) (sqrt(2) / (sqrt(2) - 1) sqrt(T) + 1) for every T.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, exercise 8.7.

    Examples
    --------
    >>> from budgetron.experts import Prod
    >>> experts = Prod(beta=0.5)
    >>> experts.update([0.0, 1.0], 0.0)
    0.5
    >>> experts.predict([0.0, 1.0])
    0.3333333333333333
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "beta": [Interval(Real, 0.5, 1.0, closed="left"), StrOptions({"doubling"})],
        "loss": [StrOptions(set(LOSSES)), callable],
    }

    def __init__(self, beta: float | str = 0.5, loss: str | Loss = "absolute") -> None:
        self.beta = beta
        self.loss = loss

    def _start(self) -> None:
        self._logs = np.zeros(self.n_experts_)

    def _check_own_state(self, found: State, rounds: int) -> None:
        logs = found["_logs"]
        least = rounds * np.log(0.5) * (1.0 + 1e-9)  # for any beta: it may have been changed
        require(np.all((logs <= 0.0) & (logs >= least)), "weights should be products of factors")

    def _block_rounds(self, rounds: int) -> int:
        left = rounds_left(self.rounds_ + 1) if self.beta == "doubling" else rounds
        return min(rounds, BLOCK, left)

    def _log_factors(self, losses: Vector) -> Vector:
        """Return the logarithms of the factors by which these losses multiply the weights."""
        beta = period_beta(self.rounds_ + 1, self.n_experts_) if isinstance(self.beta, str) else self.beta
        factors: Vector = np.log1p(-(1.0 - beta) * losses)
        return factors

    def _log_weights(self, losses: Vector) -> Vector:
        return before_each(self._log_factors(losses), self._logs)

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        self._logs = self._logs + self._log_factors(losses).sum(axis=0)
        if self.beta == "doubling" and starts_period(self.rounds_ + len(losses) + 1):
            self._logs = np.zeros(self.n_experts_)
