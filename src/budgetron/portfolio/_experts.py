"""The experts of a portfolio: who they are, what rows they see, and how large they may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._core.linear import LinearRule
from budgetron._core.rounds import Learner
from budgetron._core.scaling import advance, apply
from budgetron._util.checks import State
from budgetron.kernelized import PassiveAggressive, SecondOrderProjectron
from budgetron.linear import AROW
from budgetron.linear import PassiveAggressive as LinearPassiveAggressive

__all__ = ["MOST_RECENT", "WIDE", "Expert", "Plan", "Scaler", "Views", "experts_for", "most_supports"]

# Kernel widths: these numbers by the median squared distance, the most promising first.
WIDTHS = (2.0, 8.0, 0.5, 32.0)
RECENT_WIDTHS = (0.5, 32.0)
# Supports that a second-order expert has at least to begin with; and those that forget, at least and at most.
FEWEST, LEAST_RECENT, MOST_RECENT = 60, 20, 500
# The most of a second-order one, whose rounds take time by their square: so many at MEMORY, elsewhere by the
# root of the memory, within limits.
MOST, MEMORY, LIMITS = 800, 16 << 20, (400, 1200)
# Supports that there is room for without being asked: slabs are rounded up, at some lengths by a line more.
SPARE = 32
# Room is made as supports come: so much at first, and when less than so much is left, so much more.
FIRST, LEFT, MORE = 96, 16, 32
# Rows of more features have linear experts alone; and from so many on, the linear ones no covariances.
WIDE, FULL = 1000, 500


# Attributes of an expert, and parameters chosen when it begins, that its state holds.
ACCOUNT = ("mistakes", "late", "rounds")
CHOSEN = ("gamma", "budget", "linear", "covariance")


@dataclass(frozen=True)
class Plan:
    """Which parts a portfolio has: all of them, but for those who want to see what each is good for."""

    second_order: bool = True
    combiner: bool = True
    recency: bool = True
    moving: bool = True


@dataclass
class Expert:
    """One learner among others, and its account."""

    name: str
    model: Any  # the estimator whose parameters the hypothesis has
    standardised: bool
    width: float = 0.0
    learner: Any = None  # its hypothesis; None before it begins and after its end
    mistakes: int = 0
    late: int = 0  # mistakes since memory moved last
    rounds: int = 0
    ended: bool = False
    allowed: int = 0  # supports that its share of the memory allows; there is room for as many as it needs

    @property
    def kernel(self) -> bool:
        """Whether it has a kernel and, with it, supports."""
        return isinstance(self.model, KernelClassifier)

    @property
    def second_order(self) -> bool:
        """Whether it is one of those among which memory moves."""
        return isinstance(self.model, SecondOrderProjectron)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return 0 if self.learner is None else int(self.learner.nbytes)

    @property
    def supports(self) -> int:
        """Supports that it keeps."""
        return int(self.learner.supports.m) if self.kernel and self.learner is not None else 0

    def set_width(self, median: float, dtype: Any) -> bool:
        """Choose the kernel's gamma for rows that are so far apart; whether there is one in this type."""
        gamma, most = float(self.width / median), 1e30 if dtype == np.float32 else 1e150
        if 1.0 / most < gamma < most:
            self.model = changed(self.model, {"gamma": gamma})
            return True
        return False

    def begin(self, row: NDArray[Any], share: int, most: int) -> bool:
        """Get a hypothesis over a kernel, as large as a share of the memory allows; whether one fits."""
        least = LEAST_RECENT
        if self.second_order:  # features beside the supports, if they do not take the supports' room
            self.model = changed(self.model, {"linear": 4 * (len(row) + 1) ** 2 <= share // 8})
            least = FEWEST
        self.allowed = self.largest(row, share, least, most)
        if self.allowed:
            budget = min(self.allowed, FIRST) if self.second_order else self.allowed
            self.model = changed(self.model, {"budget": budget})
            self.learner = made(self.model, row)
        return self.allowed > 0

    def renew(self, row: NDArray[Any]) -> None:
        """Begin anew, as large as before."""
        self.learner = made(self.model, row)

    def grow(self, row: NDArray[Any], share: int, most: int) -> None:
        """Be allowed a share of the memory, for at most so many supports."""
        self.allowed = max(self.largest(row, share, self.model.budget, most), self.model.budget)
        self.make_room()

    @property
    def room(self) -> int:
        """Supports that may come before room must be made."""
        all_there = self.learner is None or self.model.budget == self.allowed
        return 1 << 31 if all_there else self.model.budget - self.supports

    def make_room(self) -> None:
        """See to it that some more supports can come, as far as they are allowed."""
        budget = self.model.budget
        while budget < self.allowed and budget - self.supports < LEFT:
            budget = min(self.allowed, budget + MORE)
        if budget > self.model.budget:
            self.learner.extend(budget)
            self.model = changed(self.model, {"budget": budget})

    def shrink(self, row: NDArray[Any], share: int) -> None:
        """Keep to a share of the memory: the supports that came first stay, as many as fit."""
        self.allowed = self.largest(row, share, FEWEST, self.allowed)
        if self.allowed:
            self.model = changed(self.model, {"budget": min(self.allowed, self.model.budget)})
            self.learner.truncate(self.model.budget)
            self.make_room()
        else:
            self.end()

    def largest(self, row: NDArray[Any], share: int, least: int, most: int) -> int:
        """The largest budget up to `most` that surely fits in a share; 0 if not even `least` does."""
        size = self._sizes(row)
        return _largest(lambda budget: size(budget) <= share, least, most)

    def promised(self, row: NDArray[Any]) -> int:
        """Bytes that it may come to take."""
        if self.learner is None or not self.second_order or self.allowed <= self.model.budget:
            return self.nbytes
        return max(self._sizes(row)(self.allowed), self.nbytes)

    def _sizes(self, row: NDArray[Any]) -> Callable[[int], int]:
        """What it takes at most with a budget, reckoned."""
        # To make hypotheses only to see how large they are would leave holes in the memory: two small ones
        # tell what a support costs, and the matrices over them are reckoned.
        low, high = (made(changed(self.model, {"budget": n}), row) for n in (63, 127))
        slope = (_beside_matrices(high) - _beside_matrices(low)) // 64

        def size(budget: int) -> int:
            beside = _beside_matrices(low) + slope * (budget - 63 + SPARE)
            gaussian = low.rule.gaussian
            return beside + (_matrices(budget + 1, gaussian.fixed) if gaussian is not None else 0)

        return size

    def state(self) -> State:
        """Return all that the expert must remember."""
        parameters = self.model.get_params()
        state: State = {name: getattr(self, name) for name in ACCOUNT}
        state |= {name: parameters[name] for name in CHOSEN if name in parameters}
        if self.kernel:
            state["allowed"] = self.allowed
        learner = None if self.learner is None else compiled_state(self.learner)
        return state | {"ended": self.ended, "learner": learner}

    def end(self) -> None:
        """Give the memory back."""
        self.learner, self.ended = None, True


def experts_for(d: int, dtype: Any, memory: int, plan: Plan) -> list[Expert]:
    """The experts on rows of d features; those without a kernel can begin."""
    wide = d > WIDE
    # A full covariance takes 4 d^2 bytes, and as many steps in a round.
    full = d <= FULL and 4 * (d + 1) ** 2 <= memory // 16
    second = AROW(covariance="full" if full else "diagonal")
    experts = [Expert("AROW", second, not wide)]
    if not wide:
        experts.append(Expert("AROW, raw", second, False))
    if plan.recency:
        experts += [Expert(f"PA, C = {C:g}", LinearPassiveAggressive(C), not wide) for C in (1.0, 0.1)]
    for expert in experts:
        expert.learner = expert.model.new_rule(d + (not wide), dtype)
    if wide:
        return experts
    if plan.second_order:
        experts += [
            Expert(
                f"second order, {'' if standardised else 'raw, '}width {width:g}",
                SecondOrderProjectron(FEWEST),
                standardised,
                width,
            )
            for width in WIDTHS
            for standardised in (False, True)
        ]
    if plan.recency:
        recent = PassiveAggressive(budget=FEWEST)
        experts += [Expert(f"kernel PA, width {width:g}", recent, True, width) for width in RECENT_WIDTHS]
    return experts


def compiled_state(hypothesis: Learner | LinearRule) -> State:
    """Return the state of one compiled hypothesis, in the form of a fitted learner's hypotheses."""
    return {"dtype": hypothesis.dtype.name, "states": [hypothesis.state()]}


def most_supports(memory: int) -> int:
    """How many supports a second-order expert may have, lest its rounds take too long."""
    return round(float(np.clip(MOST * np.sqrt(memory / MEMORY), *LIMITS)))


def changed(model: Any, parameters: dict[str, Any]) -> Any:
    """An estimator with other parameters."""
    # As its constructor would: an estimator keeps what it is given, and get_params is slow
    made: Any = object.__new__(type(model))
    given = {name: value for name, value in vars(model).items() if not name.endswith("_")}
    made.__dict__.update(given | parameters)
    return made


def made(model: Any, row: NDArray[Any]) -> Learner:
    """A new hypothesis of this learner, over rows like this one."""
    learner: Learner = model.new_learner(row)
    return learner


def _matrices(supports: int, fixed: int) -> int:
    """Bytes of the covariance and of the factor of a second-order expert; they lie in panels."""
    sides = (-(-(fixed + supports) // 32) * 32, 32), (-(-supports // 64) * 64, 64)
    return sum(4 * side * (side + panel) for side, panel in sides)


def _beside_matrices(learner: Any) -> int:
    rule = learner.rule
    if rule.gaussian is None:
        return int(learner.nbytes)
    return int(learner.nbytes - rule.gaussian.sigma.nbytes - rule.projection.factor.nbytes)


def _largest(fits: Callable[[int], bool], least: int, most: int) -> int:
    if most < least or not fits(least):
        return 0
    while least < most:
        middle = (least + most + 1) // 2
        if fits(middle):
            least = middle
        else:
            most = middle - 1
    return least


# ---------------------------------------------------------------------- rows


@dataclass
class Scaler:
    """Means of the features and sums of their squared deviations, up to now."""

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    count: int = 0

    def advance(self, X: NDArray[Any]) -> NDArray[Any]:
        """The rows standardised, each by itself and those before it; and seen."""
        out = np.empty_like(X)
        self.count = advance(X, self.mean, self.spread, self.count, out)
        return out

    def apply(self, X: NDArray[Any]) -> NDArray[Any]:
        """The rows standardised by what was seen."""
        out = np.empty_like(X)
        apply(X, self.mean, self.spread, self.count, out)
        return out


@dataclass
class Views:
    """Rows in each of the forms that an expert may want."""

    raw: Any
    standardised: Any = None
    _with_one: dict[bool, Any] = field(default_factory=dict)

    def of(self, expert: Expert) -> Any:
        """The rows as this expert takes them; those without a kernel get a feature that is 1."""
        rows = self.standardised if expert.standardised else self.raw
        if expert.kernel or issparse(rows) or self.standardised is None:
            return rows
        if expert.standardised not in self._with_one:
            one = np.ones((len(rows), 1), rows.dtype)
            self._with_one[expert.standardised] = np.hstack([one, rows])
        return self._with_one[expert.standardised]
