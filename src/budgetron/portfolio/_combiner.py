"""The combiner: one margin from the margins of all experts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Floats
from budgetron.linear import AROW
from budgetron.portfolio._experts import Plan
from budgetron.portfolio._weights import VoteWeights

__all__ = ["RATES", "Combiner", "vote_margins"]

# Recent labels are exponential averages at these rates.
RATES = np.array([1.0, 0.1])


class Combiner:
    """Combines the margins of N experts.

    A second-order linear learner (AROW) is trained on the experts' margins and on recent labels, for streams
    where one label follows another. Exponential weights over this learner and all experts then give the
    vote, so that over any stream the loss is at most slightly above that of the best of them. An inactive
    expert votes as the linear learner does.

    Parameters
    ----------
    n_experts : int
    plan : Plan
        Whether there is a linear learner, and whether it sees recent labels.
    """

    def __init__(self, n_experts: int, plan: Plan) -> None:
        self.plan = plan
        self.recent_labels: Floats = np.zeros(len(RATES))
        self.rule = AROW(loss="hinge").new_rule(n_experts + len(RATES) + 1, np.dtype(np.float64))
        self.weights = VoteWeights.for_experts(n_experts + 1)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.recent_labels.nbytes + self.weights.nbytes + self.rule.nbytes

    def learn(
        self, expert_margins: Floats, active: NDArray[np.bool_], y: Floats
    ) -> tuple[Floats, NDArray[np.intp]]:
        """Play rounds; return the margins before the labels, and the number of wrong votes of each expert."""
        combined = np.empty(len(y))
        self.rule.learn(self._features(expert_margins, self._follow_labels(y)), y, combined)
        votes, outcomes = self._votes(expert_margins, active, combined), y > 0.0
        shares = self.weights.play(votes, outcomes).predictions
        assert shares is not None
        wrong = np.count_nonzero(votes[:, 1:] != outcomes[:, None], axis=0)
        return vote_margins(shares, combined), wrong

    def decide(self, expert_margins: Floats, active: NDArray[np.bool_], *, next_row: bool) -> Floats:
        """Return the combined margin of each row.

        Recent labels are used only for the next row of the stream (`next_row`); for other rows they are 0.
        """
        recent = self.recent_labels if next_row and self.plan.recency else np.zeros(len(RATES))
        combined = self.rule.decide(self._features(expert_margins, recent))
        return vote_margins(self._votes(expert_margins, active, combined) @ self.weights.weights_, combined)

    def transfer_weight(self, source: int, target: int) -> None:
        """Add the linear learner's weight of one expert, which ends, to that of another."""
        weights = self.rule.weights.copy()
        weights[target] += weights[source]
        weights[source] = 0.0
        self.rule.set_weights(weights)

    def _follow_labels(self, y: Floats) -> Floats:
        """Return the recent labels before each round, and include these labels."""
        recent = np.zeros((len(y), len(RATES)))
        if not self.plan.recency:
            return recent
        for i, rate in enumerate(RATES.tolist()):
            average, before = float(self.recent_labels[i]), []
            for label in y.tolist():
                before.append(average)
                average += rate * (label - average)
            recent[:, i], self.recent_labels[i] = before, average
        return recent

    def _features(self, expert_margins: Floats, recent: Floats) -> Floats:
        """Return what the linear learner sees: bounded margins, recent labels, and 1."""
        n_rows, n_experts = expert_margins.shape
        features = np.ones((n_rows, n_experts + len(RATES) + 1))
        np.tanh(expert_margins, out=features[:, :n_experts])
        features[:, n_experts : n_experts + len(RATES)] = recent
        return features

    def _votes(self, expert_margins: Floats, active: NDArray[np.bool_], combined: Floats) -> Floats:
        """Return the predictions of the linear learner and of each expert, 0 or 1."""
        votes = np.empty((len(expert_margins), len(active) + 1))
        votes[:, 0] = combined > 0.0 if self.plan.combiner else 0.0
        votes[:, 1:] = np.where(active, expert_margins > 0.0, votes[:, :1])
        return votes


def vote_margins(shares: Floats, combined: Floats) -> Floats:
    """Return margins from -1 to 1.

    `shares` is the weight of those that vote for +1, and `combined` the margin of the linear learner. The
    sign is that of the vote; the margin is smaller where the linear learner is less certain of it.
    """
    vote = np.where(shares > 0.5, 2.0 * shares - 1.0, np.minimum(2.0 * shares - 1.0, -1e-9))
    margins: Floats = vote * (0.55 + 0.45 * np.sign(vote) * np.tanh(combined))
    return margins
