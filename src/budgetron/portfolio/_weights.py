"""Exponential weights over the combiner and the experts of a portfolio."""

from __future__ import annotations

from typing import Self

from budgetron._util.checks import State
from budgetron._util.types import Floats
from budgetron.experts import ExponentialWeights

__all__ = ["VoteWeights"]


class VoteWeights(ExponentialWeights):
    """Exponential weights whose state a portfolio stores and counts."""

    @classmethod
    def for_experts(cls, n_experts: int) -> Self:
        """Return equal weights for this many experts."""
        weights = cls()
        weights.start(n_experts)
        return weights

    def start(self, n_experts: int) -> None:
        """Start with equal weights for this many experts."""
        self._begin(n_experts)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self._totals.nbytes + self.expert_losses_.nbytes

    def totals(self) -> State:
        """Return the losses so far, of the experts and of the vote."""
        return {"totals": self._totals, "losses": self.expert_losses_, "loss": self.loss_}

    def set_totals(self, totals: Floats, losses: Floats, loss: float, rounds: int) -> None:
        """Continue from these losses after this many rounds."""
        self._totals, self.expert_losses_ = totals, losses
        self.loss_, self.rounds_ = loss, rounds
