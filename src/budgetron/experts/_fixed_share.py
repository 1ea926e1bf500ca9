"""Fixed share: exponential weights that can follow a change of the best expert."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._util.checks import State, require
from budgetron.experts._base import LOSSES, Constraints, ExpertAlgorithm, Loss, Vector

# The smallest `alpha`. A weight is at least alpha / N, so that no sum of weights underflows.
LEAST_ALPHA = 1e-100


class FixedShare(ExpertAlgorithm):
    """The weighted average of the experts, with exponential weights of which a part is shared in each round.

    Use it if the best expert changes in the course of the stream. Its loss is close to that of the best
    *sequence* of experts with few switches. `ExponentialWeights` is close to the best single expert only: it
    follows a change after as many rounds as the previous best expert was ahead. If one expert is best
    throughout, `ExponentialWeights` is better.

    Parameters
    ----------
    eta : float above 0, default=0.1
        Learning rate: a loss multiplies a weight by exp(-eta * loss).
    alpha : float in [1e-100, 1), default=3e-4
        The part of all weights that is shared equally among the experts after each round. 1 / alpha is about
        the number of rounds between two switches. It cannot be 0; `ExponentialWeights` is the algorithm
        without sharing. `bounds.fixed_share_rates` returns the best `eta` and `alpha` for a number of rounds
        and of switches known in advance.
    loss : {"absolute", "squared"} or callable, default="absolute"
        Loss of a prediction given the outcome. A callable takes two arrays; its values must be in [0, 1] and
        convex in the prediction.

    Notes
    -----
    A round costs O(N). After a round each weight is multiplied by exp(-eta * loss), the weights are divided
    by their sum, and then w becomes (1 - alpha) w + alpha / N. A weight is therefore never below alpha / N,
    and rounding errors do not accumulate over the rounds.

    For every sequence of experts with k switches in T rounds, the loss is at most the loss of the sequence
    plus (log N + k log(N / alpha) + (T - 1 - k) log(1 / (1 - alpha + alpha / N))) / eta + eta T / 8; see
    `bounds.fixed_share`. `best_sequence` finds the best sequence. `regret_` compares with the best single
    expert. With `play_losses` the algorithm's loss is the expected loss; the same bound applies.

    References
    ----------
    Herbster, Warmuth: Tracking the best expert (1998). Cesa-Bianchi, Lugosi: Prediction, Learning, and Games
    (2006), section 5.2.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron.experts import ExponentialWeights, FixedShare
    >>> losses = np.zeros((1000, 2))
    >>> losses[:500, 1] = losses[500:, 0] = 1.0  # expert 0 is right at first, then expert 1
    >>> round(float(FixedShare(eta=0.5, alpha=0.001).play_losses(losses).losses.sum()), 1)
    15.8
    >>> round(float(ExponentialWeights(eta=0.5).play_losses(losses).losses.sum()), 1)
    500.5
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "eta": [Interval(Real, 0.0, None, closed="neither")],
        "alpha": [Interval(Real, LEAST_ALPHA, 1.0, closed="left")],
        "loss": [StrOptions(set(LOSSES)), callable],
    }
    _averages = True

    def __init__(self, eta: float = 0.1, alpha: float = 3e-4, loss: str | Loss = "absolute") -> None:
        self.eta = eta
        self.alpha = alpha
        self.loss = loss

    def _start(self) -> None:
        self._shares = np.full(self.n_experts_, 1.0 / self.n_experts_)

    def _block_weights(self, losses: Vector) -> Vector:
        return self._weights_from(self._shares, losses)[:-1]

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        self._shares = self._weights_from(weights[-1], losses[-1:])[-1].copy()

    def _weights_from(self, start: Vector, losses: Vector) -> Vector:
        """Return the weights before each round of a block, and after the last one."""
        weights = np.empty((len(losses) + 1, len(start)))
        weights[0] = start
        # Relative to the best expert of the round, whose weight is not reduced. The sum is then at least
        # alpha / N, however large eta is, and dividing by it gives the same weights.
        factors = np.exp(-self.eta * (losses - losses.min(axis=1, keepdims=True)))
        kept, shared = 1.0 - self.alpha, self.alpha / len(start)
        total = np.add.reduce
        for before, factor, after in zip(weights, factors, weights[1:], strict=False):
            np.multiply(before, factor, out=after)
            after *= kept / total(after)
            after += shared
        return weights

    def _check_own_state(self, found: State, rounds: int) -> None:
        shares = found["_shares"]
        least = LEAST_ALPHA / len(shares) * (1.0 - 1e-9)  # for any alpha: it may have been changed
        require(
            np.all((shares >= least) & (shares <= 1.0 + 1e-9)) and abs(shares.sum() - 1.0) <= 1e-9,
            "weights should be above 0 and have the sum 1",
        )
