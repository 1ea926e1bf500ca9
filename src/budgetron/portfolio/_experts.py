"""The experts of a portfolio: linear and kernel learners for all classes, and the memory of each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from budgetron._base import sizes
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix
from budgetron.kernelized._passive_aggressive import PassiveAggressiveRule
from budgetron.kernelized._second_order_rule import SecondOrderRule
from budgetron.portfolio._views import Views

__all__ = [
    "FIRST_ORDER",
    "FULL_COVARIANCE_LIMIT",
    "LOGISTIC_FACTOR",
    "STORED",
    "WIDE",
    "Design",
    "Expert",
    "Plan",
    "designs_for",
    "most_supports",
]

# Linear experts of first order: whether they take logistic steps, and their rate.
FIRST_ORDER = ((False, 1.0), (False, 0.1), (True, 0.01), (True, 0.03))
# The smallest budget of a new second-order expert; the smallest and the largest budget of an expert that
# removes its oldest supports.
FEWEST_SUPPORTS, FEWEST_RECENT_SUPPORTS, MOST_RECENT_SUPPORTS = 60, 20, 500
# Arrays grow as supports are added. They start with room for FIRST_ROOM supports. Whenever room for fewer
# than LEAST_ROOM remains, they get room for ADDED_ROOM further ones.
FIRST_ROOM, LEAST_ROOM, ADDED_ROOM = 96, 16, 32
# Rows with more than WIDE features have linear experts only; with more than FULL_COVARIANCE_LIMIT, these have
# no full covariance.
WIDE, FULL_COVARIANCE_LIMIT = 1000, 500
# The room of an expert whose arrays need not grow.
UNLIMITED = 1 << 31
# A margin error becomes a support of a second-order expert if its squared distance from the span is above
# this.
THRESHOLD = 0.02
# The noise variance of second-order experts.
NOISE = 1.0
# Variances of second-order experts before the first update. With a larger one, the first rows have more
# influence.
PRIORS = {"hinge": 1.0, "logistic": 200.0}
# The factor of the scores of logistic experts: tanh(s / 2) is the difference of the probabilities of two
# classes.
LOGISTIC_FACTOR = 0.5
# The part of what was learned that a linear expert that forgets keeps in each update.
FORGET = 0.999
# The constant feature of linear experts on wide rows.
SMALL_CONSTANT = 0.1
# A second-order expert has at most REFERENCE_SUPPORTS supports at REFERENCE_MEMORY bytes. At other sizes the
# number grows with the square root of the memory, within SUPPORT_LIMITS, because the time of its rounds grows
# with the square of the supports.
REFERENCE_SUPPORTS, REFERENCE_MEMORY, SUPPORT_LIMITS = 800, 16 << 20, (400, 1200)
# Slabs are rounded up, at some lengths by a cache line more: room for this many more supports covers that.
SPARE = 32
# What a model file stores of an expert, besides its hypothesis.
STORED = (
    "gamma",
    "loss",
    "linear",
    "full",
    "budget",
    "allowed",
    "mistakes",
    "recent_mistakes",
    "rounds",
    "ended",
    "late",
    "scales",
)


def most_supports(memory: int) -> int:
    """Return how many supports a second-order expert may have at this memory."""
    return round(float(np.clip(REFERENCE_SUPPORTS * np.sqrt(memory / REFERENCE_MEMORY), *SUPPORT_LIMITS)))


@dataclass(frozen=True)
class Plan:
    """Which parts a portfolio has.

    It has all of them, except in experiments that measure what each part contributes.

    Attributes
    ----------
    second_order : bool
        Whether there are second-order kernel experts.
    recency : bool
        Whether there are kernel experts that remove their oldest supports, and recent labels for the
        combiners.
    reassigns_memory : bool
        Whether memory is reassigned to the better experts.
    relevance : bool
        Whether there are experts with learned feature scales.
    forgetting : bool
        Whether one combiner and one linear expert forget.
    sharing : bool
        Whether a part of each weight of the vote is shared by all in each round (fixed share). Otherwise the
        weights are exponential weights, which adapt slowly to changes.
    restarts : bool
        Whether new experts start after a change, and at the reviews after more than 1024 rounds.
    """

    second_order: bool = True
    recency: bool = True
    reassigns_memory: bool = True
    relevance: bool = True
    forgetting: bool = True
    sharing: bool = True
    restarts: bool = True


@dataclass(frozen=True)
class Design:
    """What an expert is made of.

    Attributes
    ----------
    name : str
    kind : str
        "first order": one of `FIRST_ORDER`; "linear": second order without supports; "kernel": second order
        with supports; "scaled": the same on features with learned scales; "recent": kernel PA-I that
        removes its oldest supports.
    standardised : bool
        Whether it sees standardised rows, not raw ones.
    loss : str
        "hinge" or "logistic", of second-order experts.
    width : float
        The kernel's gamma times the median squared distance between rows.
    forget : float
        The part of what was learned that each update keeps.
    constant : float
        The value of the constant feature of a linear expert.
    """

    name: str
    kind: str
    standardised: bool
    loss: str = "hinge"
    width: float = 0.0
    forget: float = 1.0
    constant: float = 1.0

    @property
    def has_kernel(self) -> bool:
        """Whether it has supports."""
        return self.kind in ("kernel", "scaled", "recent")

    @property
    def second_order(self) -> bool:
        """Whether it has supports and a covariance; memory is reassigned among these."""
        return self.kind in ("kernel", "scaled")


def designs_for(d: int, plan: Plan) -> list[Design]:
    """Return the designs of the experts for rows of d features, the first-order ones first."""
    dense = d <= WIDE
    names = [f"{'logistic, rate' if logistic else 'PA, C ='} {rate:g}" for logistic, rate in FIRST_ORDER]
    designs = [Design(name, "first order", dense) for name in names]
    if not dense:
        # The values of wide rows, such as frequencies of words, are small, so that a constant of 1 would
        # dominate the first rounds.
        wide = Design("AROW", "linear", False, "logistic", constant=SMALL_CONSTANT)
        designs += [wide, replace(wide, name="AROW, hinge", loss="hinge")]
        if plan.forgetting:
            designs.append(replace(wide, name="AROW that forgets", forget=FORGET))
        return designs
    designs.append(Design("AROW", "linear", True))
    designs.append(Design("AROW, raw", "linear", False))
    if plan.forgetting:
        designs.append(Design("AROW that forgets", "linear", True, forget=FORGET))
    if plan.second_order:
        # The order matters: of equally good experts, the first ones stay.
        for loss, width in (("logistic", 2.0), ("logistic", 8.0), ("hinge", 2.0), ("hinge", 0.5)):
            for standardised in (False, True):
                name = f"{loss}, {'' if standardised else 'raw, '}width {width:g}"
                designs.append(Design(name, "kernel", standardised, loss, width))
        if plan.relevance:
            designs += [Design(f"learned scales, {i}", "scaled", True, "logistic", 2.0) for i in (1, 2)]
    if plan.recency:
        designs += [
            Design(f"kernel PA, width {width:g}", "recent", True, width=width) for width in (0.5, 32.0)
        ]
    return designs


@dataclass
class Expert:
    """An expert, and its counts of rounds and mistakes.

    First-order experts learn together in `_core.linear_experts`, and have only counts here.

    Attributes
    ----------
    design : Design
    learner : Learner or None
        Its hypothesis; None before it starts and after it has ended.
    gamma : float
        The parameter of its kernel.
    scales : ndarray of shape (d,), or empty
        Learned scales of the features.
    loss : str
        The loss of a second-order expert: that of its design, unless it is chosen when the expert starts.
    linear, full : bool
        Whether a second-order expert has a linear part, and whether features have covariances.
    budget, allowed : int
        The number of supports that its arrays have room for, and the number that its share of the memory
        allows.
    mistakes, rounds, recent_mistakes : int
        Mistakes and rounds since it started, and mistakes since the last review.
    ended, late : bool
        Whether it has ended, and whether it started with rows of the window.
    """

    design: Design
    learner: Learner | None = None
    gamma: float = 1.0
    scales: Floats = field(default_factory=lambda: np.zeros(0))
    loss: str = ""
    linear: bool = True
    full: bool = True
    budget: int = 0
    allowed: int = 0
    mistakes: int = 0
    recent_mistakes: int = 0
    rounds: int = 0
    ended: bool = False
    late: bool = False

    def __post_init__(self) -> None:
        self.loss = self.loss or self.design.loss

    @property
    def active(self) -> bool:
        """Whether it has started and not ended."""
        return self.learner is not None or self.design.kind == "first order"

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.scales.nbytes + (0 if self.learner is None else self.learner.nbytes)

    @property
    def n_supports(self) -> int:
        """Number of supports."""
        return 0 if self.learner is None else self.learner.n_supports

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds; NaN before the first round."""
        return self.mistakes / self.rounds if self.rounds else float("nan")

    @property
    def score_factor(self) -> float:
        """The factor of its scores in the combination."""
        return LOGISTIC_FACTOR if self.loss == "logistic" else 1.0

    def is_safe(self, square: float) -> bool:
        """Return whether rows of at most this squared norm cannot make a score or a step overflow."""
        return self.learner is None or self.learner.is_safe(square)

    # ------------------------------------------------------------------ rounds

    def rows(self, views: Views) -> Matrix:
        """Return the rows in the form that this expert learns."""
        return views.rows(standardised=self.design.standardised, scales=self.scales)

    def learn(
        self,
        views: Views,
        labels: Floats,
        scores: Floats,
        sizes: Ints,
        importances: Floats | None = None,
    ) -> None:
        """Play a round per row; fill the scores before the labels, and the supports after each round."""
        assert self.learner is not None
        rows = self.rows(views)
        if len(labels) == 1 and not self.learner.supports.sparse:  # much faster than a batch of one row
            weight = 1.0 if importances is None else float(importances[0])
            scores[0] = self.learner.play(rows[0], labels[0], weight)
            sizes[0] = self.n_supports
            return
        self.learner.learn(rows, labels, scores, sizes, importances=importances)

    def replay(self, rows: Matrix, labels: Floats, importances: Floats) -> None:
        """Learn rows from before it started, in the form that it learns."""
        assert self.learner is not None
        self.learner.learn(rows, labels, importances=importances)

    def scores_for(self, views: Views) -> Floats:
        """Return the scores of each row."""
        assert self.learner is not None
        return self.learner.decide(self.rows(views))

    def count(self, rounds: int, mistakes: int) -> None:
        """Add rounds that it has played."""
        self.rounds += rounds
        self.mistakes += mistakes
        self.recent_mistakes += mistakes

    # ------------------------------------------------------------------ start and end

    def new_learner(self, row: Floats, outputs: int, budget: int) -> Learner:
        """Return a new hypothesis over rows like this one, with this budget."""
        return Learner(Kernel("rbf", self.gamma), self.new_rule(outputs, budget), len(row), row.dtype)

    def new_rule(self, outputs: int, budget: int) -> Rule:
        """Return a new rule with this budget."""
        design = self.design
        if design.kind == "recent":
            return PassiveAggressiveRule(budget, 1.0, 0.0, outputs)
        linear = design.kind == "linear"
        # A linear expert stores no row, and its features keep their scale.
        threshold, scale = (np.inf, 1.0) if linear else (THRESHOLD, float(np.sqrt(self.gamma)))
        prior, most_dense = PRIORS[self.loss], WIDE if self.full else 0
        if linear:  # with larger features and a smaller variance, only the constant becomes smaller
            scale, prior = scale / design.constant, prior * design.constant**2
        return SecondOrderRule(
            budget, threshold, NOISE, self.linear, scale, self.loss, prior, design.forget, outputs, most_dense
        )

    def set_width(self, median: float, dtype: np.dtype[Any]) -> bool:
        """Choose gamma by the median squared distance of rows; return whether this type can represent it."""
        gamma, most = float(self.design.width / median), 1e30 if dtype == np.float32 else 1e150
        if 1.0 / most < gamma < most:
            self.gamma = gamma
            return True
        return False

    def start(self, row: Floats, outputs: int, share: int, most: int) -> bool:
        """Make a hypothesis as large as a share of the memory allows; return whether one fits."""
        least = FEWEST_RECENT_SUPPORTS
        if self.design.second_order:  # a linear part only if it leaves most of the memory to the supports
            self.linear = 4 * (len(row) + 1) ** 2 <= share // 8
            least = FEWEST_SUPPORTS
        self.allowed = self.largest(row, outputs, share, least, most)
        if self.allowed:
            self.budget = min(self.allowed, FIRST_ROOM) if self.design.second_order else self.allowed
            self.learner = self.new_learner(row, outputs, self.budget)
            self.mistakes = self.recent_mistakes = self.rounds = 0
            self.ended = False
        return self.allowed > 0

    def end(self) -> None:
        """End the expert and release its memory."""
        self.learner, self.ended, self.scales = None, True, np.zeros(0)

    # ------------------------------------------------------------------ memory

    def bytes_at(self, row: Floats, outputs: int, budget: int) -> int:
        """Return an upper bound of its bytes with this budget."""
        return sizes.bytes_of_budget(lambda n: self.new_learner(row, outputs, n))(budget, SPARE)

    def largest(self, row: Floats, outputs: int, share: int, least: int, most: int) -> int:
        """Return the largest budget from `least` to `most` whose size fits in a share; 0 if none does."""
        size = sizes.bytes_of_budget(lambda n: self.new_learner(row, outputs, n))
        if most < least or size(least, SPARE) > share:
            return 0
        while least < most:
            middle = (least + most + 1) // 2
            if size(middle, SPARE) <= share:
                least = middle
            else:
                most = middle - 1
        return least

    def grow(self, row: Floats, outputs: int, share: int, most: int) -> None:
        """Allow a share of the memory, for at most this many supports."""
        self.allowed = max(self.largest(row, outputs, share, self.budget, most), self.budget)
        self.make_room()

    def shrink(self, row: Floats, outputs: int, share: int, most: int = UNLIMITED) -> None:
        """Keep the oldest supports: at most `most`, and as many as fit in a share of the memory; or end."""
        assert self.learner is not None
        self.allowed = self.largest(row, outputs, share, FEWEST_SUPPORTS, min(self.allowed, most))
        if self.allowed:
            self.truncate(min(self.allowed, self.budget))
            self.make_room()
        else:
            self.end()

    @property
    def room(self) -> int:
        """How many supports can be added before more room must be made."""
        if self.learner is None or self.budget == self.allowed or not self.design.second_order:
            return UNLIMITED
        return self.budget - self.n_supports

    def make_room(self) -> None:
        """Make room for some more supports, up to the number that is allowed."""
        assert self.learner is not None
        budget = self.budget
        while budget < self.allowed and budget - self.n_supports < LEAST_ROOM:
            budget = min(self.allowed, budget + ADDED_ROOM)
        if budget > self.budget:
            self.extend(budget)

    def truncate(self, budget: int) -> None:
        """Keep the oldest supports, at most this many."""
        assert self.learner is not None
        self.budget = budget
        self.learner.truncate(budget)

    def extend(self, budget: int) -> None:
        """Make room for this many supports."""
        assert self.learner is not None
        self.learner.extend(budget)
        self.budget = budget

    def reserved_bytes(self, row: Floats, outputs: int) -> int:
        """Upper bound of its bytes when it has all supports that are allowed."""
        if self.learner is None or not self.design.second_order or self.allowed <= self.budget:
            return self.nbytes
        return max(self.bytes_at(row, outputs, self.allowed) + self.scales.nbytes, self.nbytes)

    def state(self) -> State:
        """Return all that the expert must remember."""
        learner = None if self.learner is None else self.learner.state()
        return {name: getattr(self, name) for name in STORED} | {"learner": learner}
