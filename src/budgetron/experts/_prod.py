"""Second-order weights: 004 exercise 8.7."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron.experts._base import LOSSES, ExpertAlgorithm, Loss, Vector, before_each


class Prod(ExpertAlgorithm):
    """Weights multiplied by 1 - (1 - beta) loss: Weighted Majority for losses anywhere in [0, 1].

    Use it like `ExponentialWeights`, where the good experts' losses are small: its regret
    follows the sum of the best expert's squared losses.

    Parameters
    ----------
    beta : float in [1/2, 1), default=0.5
        What remains of a weight after a loss of 1. For T rounds known in advance
        max(1/2, 1 - sqrt(log N / T)) is best.
    loss : {"absolute", "squared"} or callable, default="absolute"
        Loss of a prediction given the outcome, in [0, 1], on arrays.

    Notes
    -----
    A round costs O(N). The exercise is of a randomized algorithm: `losses` are the expected losses of an
    expert drawn by weight, and the weighted average that `predict` returns does no worse under a
    convex loss. With the best beta the regret is at most 2 sqrt(T log N) (004 exercise 8.7).

    Examples
    --------
    >>> from budgetron.experts import Prod
    >>> experts = Prod(beta=0.5)
    >>> experts.update([0.0, 1.0], 0.0)
    0.5
    >>> experts.predict([0.0, 1.0])
    0.3333333333333333
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "beta": [Interval(Real, 0.5, 1.0, closed="left")],
        "loss": [StrOptions(set(LOSSES)), callable],
    }

    def __init__(self, beta: float = 0.5, loss: str | Loss = "absolute") -> None:
        self.beta = beta
        self.loss = loss

    def _start(self) -> None:
        self._logs = np.zeros(self.n_experts_)

    def _log_weights(self, losses: Vector) -> Vector:
        return before_each(np.log1p(-(1.0 - self.beta) * losses), self._logs)

    def _absorb(self, losses: Vector, own: Vector) -> None:
        self._logs = self._logs + np.log1p(-(1.0 - self.beta) * losses).sum(axis=0)
