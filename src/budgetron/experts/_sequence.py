"""The best sequence of experts with a limited number of switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron.experts._base import Vector, numbers


@dataclass(frozen=True)
class ExpertSequence:
    """A sequence of experts, one per round.

    Attributes
    ----------
    experts : ndarray of shape (n_rounds,)
        The expert of each round.
    loss : float
        The sum of their losses.
    smallest_losses : ndarray of shape (switches + 1,)
        The smallest loss of any sequence with at most 0, 1, 2, ... switches. The last one is `loss`, up to
        rounding.
    """

    experts: NDArray[np.intp]
    loss: float
    smallest_losses: Vector

    @property
    def switches(self) -> int:
        """The number of rounds whose expert is another one than in the round before."""
        return int(np.count_nonzero(np.diff(self.experts)))


def best_sequence(losses: ArrayLike, switches: int) -> ExpertSequence:
    """Return the sequence of experts with the smallest loss among those with at most so many switches.

    Of sequences with equal losses it is one with the fewest switches. The loss of `FixedShare` is compared
    with that of such a sequence; see `bounds.fixed_share`. It takes time and memory in proportion to
    n_rounds * n_experts * (switches + 1).

    Parameters
    ----------
    losses : array-like of shape (n_rounds, n_experts)
        The loss of each expert in each round: finite numbers.
    switches : int
        The largest number of switches, at least 0.

    Returns
    -------
    ExpertSequence

    Examples
    --------
    >>> from budgetron.experts import best_sequence
    >>> best = best_sequence([[0, 1], [0, 1], [0.5, 0], [0, 1], [1, 0], [1, 0]], switches=1)
    >>> best.experts.tolist(), best.loss, best.smallest_losses.tolist()
    ([0, 0, 0, 0, 1, 1], 0.5, [2.5, 0.5])
    """
    table = numbers(losses, "losses")
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(
            f"losses must have shape (n_rounds, n_experts), at least one of each; got {table.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("losses must be finite")
    if isinstance(switches, bool) or not isinstance(switches, int | np.integer) or switches < 0:
        raise ValueError(f"switches must be an integer of at least 0; got {switches!r}")
    most = min(int(switches), len(table) - 1)  # more are not possible
    smallest, switched, leaders = _smallest_losses(table, most)
    by_switches = np.full(int(switches) + 1, smallest[most].min())
    by_switches[: most + 1] = smallest.min(axis=1)
    fewest = int(by_switches.argmin())  # the first of equal losses
    experts = _traced_back(int(smallest[fewest].argmin()), fewest, switched, leaders)
    loss = float(table[np.arange(len(table)), experts].sum())
    return ExpertSequence(experts, loss, by_switches)


def _smallest_losses(table: Vector, most: int) -> tuple[Vector, NDArray[np.bool_], NDArray[np.intp]]:
    """Return the smallest losses, and for each round how they were reached.

    smallest[j, i] is the smallest loss of a sequence with at most j switches that ends with expert i.
    switched[t, j, i] is whether its last switch is the one to round t, and leaders[t, j] is the expert before
    it. A switch is made only if it reduces the loss.
    """
    rounds, n_experts = table.shape
    switched = np.zeros((rounds, most + 1, n_experts), bool)
    leaders = np.zeros((rounds, most + 1), np.intp)
    smallest = np.tile(table[0], (most + 1, 1))
    for t in range(1, rounds):
        if most:
            leaders[t, 1:] = smallest[:-1].argmin(axis=1)
            by_switch = smallest[:-1].min(axis=1, keepdims=True)
            np.less(by_switch, smallest[1:], out=switched[t, 1:])
            np.minimum(by_switch, smallest[1:], out=smallest[1:])
        smallest += table[t]
    return smallest, switched, leaders


def _traced_back(
    last: int, switches: int, switched: NDArray[np.bool_], leaders: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the experts of all rounds, from the expert of the last round."""
    experts = np.empty(len(switched), np.intp)
    for t in range(len(switched) - 1, -1, -1):
        experts[t] = last
        if switched[t, switches, last]:
            last, switches = int(leaders[t, switches]), switches - 1
    return experts
