"""Polynomial weights (Mohri et al., exercise 8.8)."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron.experts._base import LOSSES, Constraints, ExpertAlgorithm, Loss, Vector


class PolynomialWeights(ExpertAlgorithm):
    """The weighted average of the experts, with weights (regret against the expert)+ ** (alpha - 1).

    It needs no learning rate and ignores experts that do worse than the algorithm itself. It usually makes
    larger losses than `ExponentialWeights`, and smaller ones if only few of many experts are good.

    Parameters
    ----------
    alpha : float above 2, default=None
        The exponent. The default is the larger of 4 and 2 log N, the best choice for many experts.
    loss : {"absolute", "squared"} or callable, default="absolute"
        Loss of a prediction given the outcome. A callable takes two arrays; its values must be in [0, 1] and
        convex in the prediction.

    Notes
    -----
    A round costs O(N). The regret is at most sqrt((alpha - 1) T) N ** (1 / alpha), and for
    alpha = 2 log N at most sqrt(e (2 log N - 1) T). In the first round, and while no expert has a
    smaller loss than the algorithm, all weights are 0; the prediction is then the unweighted average.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, exercise 8.8.

    Examples
    --------
    >>> from budgetron.experts import PolynomialWeights
    >>> experts = PolynomialWeights(alpha=4.0)
    >>> experts.update([0.0, 1.0], 0.0)
    0.5
    >>> experts.predict([0.0, 1.0])
    0.0
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "alpha": [Interval(Real, 2.0, None, closed="neither"), None],
        "loss": [StrOptions(set(LOSSES)), callable],
    }
    _averages = True

    def __init__(self, alpha: float | None = None, loss: str | Loss = "absolute") -> None:
        self.alpha = alpha
        self.loss = loss

    def _start(self) -> None:
        self._regrets = np.zeros(self.n_experts_)  # R_{t,i}

    def _block_rounds(self, rounds: int) -> int:
        return 1  # the next weights depend on the algorithm's loss

    def _log_weights(self, losses: Vector) -> Vector:
        alpha = max(4.0, 2.0 * np.log(self.n_experts_)) if self.alpha is None else self.alpha
        ahead = self._regrets > 0.0
        if not ahead.any():
            return np.zeros((1, self.n_experts_))
        logs = np.full(self.n_experts_, -np.inf)
        logs[ahead] = (alpha - 1.0) * np.log(self._regrets[ahead])
        return logs[None, :]

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        self._regrets = self._regrets + (own[0] - losses[0])
