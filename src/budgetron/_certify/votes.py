"""Certificates of votes: against sequences of experts, and through the theorems of single experts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan

import numpy as np

from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.theorems import Run, SequenceTheorem, VoteTheorem, VotingExpert
from budgetron._certify.certificate import Certificate, refuse_failed
from budgetron._certify.second_order import evaluate_images
from budgetron.bounds import THEOREMS, Assumption
from budgetron.experts import ExpertSequence, best_sequence

__all__ = ["MOST_SWITCHES", "sequence_certificate", "vote_certificate"]

# The most switches of a sequence of experts that is searched for as the best competitor.
MOST_SWITCHES = 30
# The most experts of a sequence that a certificate names.
MOST_NAMES = 4


def sequence_certificate(
    model: OnlineClassifier, run: Run, theorem: SequenceTheorem, competitor: object, check: bool
) -> Certificate:
    """Compare a vote with the best sequence of its experts."""
    count, losses = theorem.losses(run)
    if isinstance(competitor, int) and not isinstance(competitor, bool) and competitor >= 0:
        if competitor and run.trace.ledger is None:
            raise ValueError(
                "a comparison with sequences of experts that switch needs the losses of every round: make "
                "the trace with progressive_fit(..., ledger=True)"
            )
        best, switches = best_sequence(losses, competitor), competitor
    elif isinstance(competitor, str) and competitor == "best":
        # All numbers of switches come from one table. Assumptions on the switches hold for all of them.
        found = best_sequence(losses, min(MOST_SWITCHES, len(losses) - 1)).smallest_losses
        switches = int(np.argmin([loss + theorem.regret(run, k, []) for k, loss in enumerate(found)]))
        best = best_sequence(losses, switches)
    else:
        raise ValueError(
            f'competitor must be "best", or a number of switches, for {type(model).__name__}; '
            f"got {competitor!r}"
        )
    assumptions: list[Assumption] = []
    bound = best.loss + theorem.regret(run, switches, assumptions)
    source = THEOREMS[theorem.name].source
    if check:
        refuse_failed(assumptions, source)
    return Certificate(
        learner=repr(model),
        theorem=source,
        quantity="loss",
        count=count,
        bound=bound,
        competitor=_sequence_name(best, switches, theorem.experts),
        norm=nan,
        losses=best.loss,
        shift=0.0,
        rounds=model.rounds_,
        assumptions=assumptions,
    )


def _sequence_name(best: ExpertSequence, switches: int, names: Sequence[str]) -> str:
    """Return what a certificate says about a sequence of experts."""
    starts = np.flatnonzero(np.diff(best.experts, prepend=-1))
    experts = [f'"{names[i]}"' for i in best.experts[starts]]
    if not switches:
        return f"the best expert, {experts[0]}"
    listed = ", ".join(experts[:MOST_NAMES]) + (", ..." if len(experts) > MOST_NAMES else "")
    return (
        f"the best sequence of experts with at most {switches} switch{'es' if switches > 1 else ''}, {listed}"
    )


def vote_certificate(
    model: OnlineClassifier, run: Run, theorem: VoteTheorem, competitor: object, check: bool
) -> Certificate:
    """Compare a vote with the best competitor of one of its experts."""
    if not isinstance(competitor, str) or competitor != "best":
        raise ValueError(
            f'competitor must be "best" for this theorem: that of the expert with the smallest bound; '
            f"got {competitor!r}"
        )
    vote, expert = THEOREMS[theorem.vote.name].source, THEOREMS[theorem.name].source
    assumptions: list[Assumption] = []
    regret = theorem.vote.regret(run, 0, assumptions)
    found = [_expert_bound(one) for one in theorem.experts(run, theorem.name)]
    # An expert that took part in few rounds only has a bound that says little about the stream.
    longest = max(one.rounds for one in found)
    best = min((one for one in found if 2 * one.rounds >= longest), key=lambda one: one.bound)
    assumptions += best.assumptions
    if check:
        refuse_failed(assumptions, f"{vote}, with {expert}")
    return Certificate(
        learner=repr(model),
        theorem=f"{vote}; for the expert: {expert}",
        quantity="loss",
        count=theorem.vote.losses(run)[0],
        bound=best.bound + regret,
        competitor=f'the best function found for the expert "{best.name}" in {best.rounds:,} rounds',
        norm=best.norm,
        losses=best.losses,
        shift=0.0,
        rounds=len(run.trace),
        most=int(best.most + regret),
        assumptions=assumptions,
        loss=best.loss,
    )


@dataclass
class _ExpertBound:
    """The bound of an expert's losses; `most` is known without a theorem. See `Certificate`."""

    name: str
    bound: float
    most: float
    rounds: int = 0
    norm: float = 0.0
    losses: float = 0.0
    loss: str = "hinge"
    assumptions: list[Assumption] = field(default_factory=list)


def _expert_bound(expert: VotingExpert) -> _ExpertBound:
    """Add up the bounds of the mistakes of an expert, from each of its starts on, and its other losses."""
    found = _ExpertBound(expert.name, expert.known, expert.known)
    for run, theorem, replayed in expert.runs:
        bound, correct = evaluate_images(run, theorem, None, found.assumptions)
        # The bound is about all rows that it learned; those before it took part have known mistakes.
        found.bound += bound - int(run.trace.mistakes[:replayed].sum())
        found.most += int(np.count_nonzero(~correct[replayed:]))
        found.rounds += len(correct) - replayed
        found.norm, found.losses = max(found.norm, run.norm), found.losses + run.losses
        found.loss = run.loss
    return found
