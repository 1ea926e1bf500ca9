"""The experts of a portfolio: linear and kernel learners, and the memory of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.sizes import with_params
from budgetron._core.distances import Distances
from budgetron._core.linear import LinearRule
from budgetron._core.rounds import Learner
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix
from budgetron.kernelized import PassiveAggressive, SecondOrderProjectron
from budgetron.linear import AROW
from budgetron.linear import PassiveAggressive as LinearPassiveAggressive
from budgetron.portfolio._sizes import bytes_of_budget, largest_budget
from budgetron.portfolio._views import Views

__all__ = ["MOST_RECENT", "WIDE", "Expert", "KernelExpert", "Plan", "compiled_state", "experts_for"]

# Kernel widths as multiples of 1 / median squared distance, the most promising first.
WIDTHS = (2.0, 8.0, 0.5, 32.0)
RECENT_WIDTHS = (0.5, 32.0)
# The fewest supports of a new second-order expert; the fewest and the most of an expert that removes old
# ones.
FEWEST, LEAST_RECENT, MOST_RECENT = 60, 20, 500
# Arrays grow as supports are added: room for FIRST at the start, and for MORE when room for fewer than LEFT
# is left.
FIRST, LEFT, MORE = 96, 16, 32
# Rows with more than WIDE features have linear experts only; with more than FULL, these have no full
# covariance.
WIDE, FULL = 1000, 500
# There is no limit on the supports that can be added without more room.
UNLIMITED = 1 << 31


@dataclass(frozen=True)
class Plan:
    """Which parts a portfolio has. All, except in experiments that measure what each part contributes.

    Attributes
    ----------
    second_order : bool
        Whether there are second-order kernel experts.
    combiner : bool
        Whether a linear learner combines the experts, besides the weights of the vote.
    recency : bool
        Whether there are passive-aggressive experts, and recent labels for the combiner.
    moving : bool
        Whether memory is reassigned to the better experts.
    """

    second_order: bool = True
    combiner: bool = True
    recency: bool = True
    moving: bool = True


@dataclass
class Expert:
    """A linear expert, and its record; the base of the kernel expert.

    Attributes
    ----------
    name : str
    model : LinearClassifier or KernelClassifier
        An unfitted estimator with the parameters of the hypothesis.
    standardised : bool
        Whether it sees standardised rows, not raw ones.
    learner : LinearRule, Learner or None
        Its hypothesis; None before it starts and after it has ended.
    mistakes, rounds : int
        Its mistakes, and the rounds that it played.
    recent_mistakes : int
        Mistakes since memory was last reassigned.
    ended : bool
    """

    name: str
    model: Any
    standardised: bool
    learner: Any = None
    mistakes: int = 0
    recent_mistakes: int = 0
    rounds: int = 0
    ended: bool = False

    @property
    def active(self) -> bool:
        """Whether it has started and not ended."""
        return self.learner is not None

    @property
    def has_kernel(self) -> bool:
        """Whether it has a kernel, and so supports."""
        return False

    @property
    def second_order(self) -> bool:
        """Whether it is a second-order kernel expert; memory is reassigned among these."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return 0 if self.learner is None else int(self.learner.nbytes)

    @property
    def n_supports(self) -> int:
        """Number of supports."""
        return 0 if self.learner is None else int(self.learner.n_supports)

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds; NaN before the first round."""
        return self.mistakes / self.rounds if self.rounds else float("nan")

    def is_safe(self, square: float) -> bool:
        """Return whether rows of at most this squared norm cannot make a margin or a step overflow."""
        # AROW and PA have no limit on their step (`reach`), so that `LinearRule.is_safe` is always False. But
        # their step is at most as long as needed for the right margin, which depends on the norms of row and
        # weights.
        return self.learner is None or bool(self.learner.norm2 < 1e60)

    def rows(self, views: Views) -> Matrix:
        """Return the rows in the form that this expert takes."""
        return views.rows(standardised=self.standardised, constant=True)

    def width_of(self, d: int) -> int:
        """Number of features of its rows, where those of the stream have d."""
        return d + 1 if d <= WIDE else d

    def learn_rows(self, X: Matrix, y: Floats, distances: Distances | None = None) -> tuple[Floats, Ints]:
        """Play a round per row; return the margins before the labels, and the supports after each round."""
        margins, sizes = np.empty(X.shape[0]), np.zeros(X.shape[0], np.int64)
        if X.shape[0] == 1 and isinstance(X, np.ndarray):
            margins[0] = self.learner.play(X[0], y[0])
            sizes[0] = self.n_supports
        elif distances is None:
            self.learner.learn(X, y, margins, sizes)
        else:
            self.learner.learn(X, y, margins, sizes, distances=distances)
        return margins, sizes

    def margins_for(self, X: Matrix, distances: Distances | None = None) -> Floats:
        """Return the margin of each row."""
        options = {} if distances is None else {"distances": distances}
        margins: Floats = self.learner.decide(X, **options)
        return margins

    def count(self, rounds: int, mistakes: int) -> None:
        """Add rounds that it has played."""
        self.rounds += rounds
        self.mistakes += mistakes
        self.recent_mistakes += mistakes

    def end(self) -> None:
        """End the expert and release its memory."""
        self.learner, self.ended = None, True

    def own_state(self) -> State:
        """Return the parameters that were chosen for it."""
        return {"covariance": self.model.covariance} if isinstance(self.model, AROW) else {}

    def state(self) -> State:
        """Return all that the expert must remember."""
        # "late" is the name of the file format for the recent mistakes.
        record = {"mistakes": self.mistakes, "late": self.recent_mistakes, "rounds": self.rounds}
        learner = None if self.learner is None else compiled_state(self.learner)
        return record | self.own_state() | {"ended": self.ended, "learner": learner}


@dataclass
class KernelExpert(Expert):
    """An expert with a kernel of a certain width, and a share of the memory.

    Attributes
    ----------
    width : float
        The kernel's gamma times the median squared distance between rows.
    allowed : int
        The supports that its share of the memory allows. Its arrays have room for as many as it needs.
    """

    width: float = 0.0
    allowed: int = 0

    @property
    def has_kernel(self) -> bool:
        return True

    @property
    def second_order(self) -> bool:
        return isinstance(self.model, SecondOrderProjectron)

    def is_safe(self, square: float) -> bool:
        return self.learner is None or bool(self.learner.is_safe(square))

    def rows(self, views: Views) -> Matrix:
        return views.rows(standardised=self.standardised, constant=False)

    def width_of(self, d: int) -> int:
        return d

    def own_state(self) -> State:
        names = ("gamma", "budget", "linear") if self.second_order else ("gamma", "budget")
        return {name: getattr(self.model, name) for name in names} | {"allowed": self.allowed}

    # ------------------------------------------------------------------ start and end

    def set_width(self, median: float, dtype: np.dtype[Any]) -> bool:
        """Choose gamma by the median squared distance of rows; return whether this type can represent it."""
        gamma, most = float(self.width / median), 1e30 if dtype == np.float32 else 1e150
        if 1.0 / most < gamma < most:
            self.model = with_params(self.model, gamma=gamma)
            return True
        return False

    def start(self, row: Floats, share: int, most: int) -> bool:
        """Make a hypothesis as large as a share of the memory allows; return whether one fits."""
        least = LEAST_RECENT
        if self.second_order:  # linear features only if they leave most of the memory to the supports
            self.model = with_params(self.model, linear=4 * (len(row) + 1) ** 2 <= share // 8)
            least = FEWEST
        self.allowed = self._largest(row, share, least, most)
        if self.allowed:
            budget = min(self.allowed, FIRST) if self.second_order else self.allowed
            self.model = with_params(self.model, budget=budget)
            self.restart(row)
        return self.allowed > 0

    def restart(self, row: Floats) -> None:
        """Replace the hypothesis by a new one of the same size."""
        self.learner = self.model.new_learner(row)

    # ------------------------------------------------------------------ memory

    def _largest(self, row: Floats, share: int, least: int, most: int) -> int:
        return largest_budget(bytes_of_budget(self.model, row), share, least, most)

    def grow(self, row: Floats, share: int, most: int) -> None:
        """Allow a share of the memory, for at most this many supports."""
        self.allowed = max(self._largest(row, share, self.model.budget, most), self.model.budget)
        self.make_room()

    def shrink(self, row: Floats, share: int) -> None:
        """Keep the oldest supports that fit in a share of the memory; end if there are too few."""
        self.allowed = self._largest(row, share, FEWEST, self.allowed)
        if self.allowed:
            self.model = with_params(self.model, budget=min(self.allowed, self.model.budget))
            self.learner.truncate(self.model.budget)
            self.make_room()
        else:
            self.end()

    @property
    def room(self) -> int:
        """How many supports can be added before more room must be made."""
        if self.learner is None or self.model.budget == self.allowed:
            return UNLIMITED
        return int(self.model.budget - self.n_supports)

    def make_room(self) -> None:
        """Make room for some more supports, up to the number that is allowed."""
        budget = self.model.budget
        while budget < self.allowed and budget - self.n_supports < LEFT:
            budget = min(self.allowed, budget + MORE)
        if budget > self.model.budget:
            self.learner.extend(budget)
            self.model = with_params(self.model, budget=budget)

    def promised(self, row: Floats) -> int:
        """Bytes that it may take when it has all supports that are allowed."""
        if self.learner is None or not self.second_order or self.allowed <= self.model.budget:
            return self.nbytes
        return max(bytes_of_budget(self.model, row)(self.allowed), self.nbytes)


def experts_for(d: int, dtype: np.dtype[Any], memory: int, plan: Plan) -> list[Expert]:
    """Return the experts for rows of d features; the linear ones have started."""
    wide = d > WIDE
    # A full covariance takes 4 d^2 bytes, and as many operations per round.
    full = d <= FULL and 4 * (d + 1) ** 2 <= memory // 16
    arow = AROW(covariance="full" if full else "diagonal", loss="hinge")
    experts: list[Expert] = [Expert("AROW", arow, not wide)]
    if not wide:
        experts.append(Expert("AROW, raw", arow, False))
    if plan.recency:
        experts += [Expert(f"PA, C = {C:g}", LinearPassiveAggressive(C), not wide) for C in (1.0, 0.1)]
    for expert in experts:
        assert isinstance(expert.model, LinearClassifier)
        expert.learner = expert.model.new_rule(expert.width_of(d), dtype)
    if wide:
        return experts
    if plan.second_order:
        experts += [
            KernelExpert(
                f"second order, {'' if standardised else 'raw, '}width {width:g}",
                SecondOrderProjectron(FEWEST, loss="hinge"),
                standardised,
                width=width,
            )
            for width in WIDTHS
            for standardised in (False, True)
        ]
    if plan.recency:
        recent: KernelClassifier = PassiveAggressive(budget=FEWEST)
        experts += [KernelExpert(f"kernel PA, width {w:g}", recent, True, width=w) for w in RECENT_WIDTHS]
    return experts


def compiled_state(hypothesis: Learner | LinearRule) -> State:
    """Return the state of one compiled hypothesis, in the form in which a fitted learner stores its own."""
    return {"dtype": hypothesis.dtype.name, "states": [hypothesis.state()]}
