"""A portfolio that learns a stream once more and records what its second-order experts learned.

A portfolio records which experts were wrong in each round, but not the quantities of their proofs. These
depend on the rows that each expert learned before and after it started, and on its memory, which changes with
the success of the other experts. So the whole portfolio is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from budgetron._base.batches import ledger_columns
from budgetron._base.images import Removal
from budgetron._base.theorems import Run
from budgetron._base.trace import Trace
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats, Ints, Matrix
from budgetron.portfolio._experts import Expert
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._views import Views

__all__ = ["Period", "recorded_periods"]

Labels: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.generic]]"


@dataclass
class Period:
    """What an expert learned from one start to its end.

    Attributes
    ----------
    expert : Expert
        A copy without hypothesis: its kernel, scales, loss and first budget.
    first : int
        The round of the stream in which it took part first.
    replayed : int
        The number of rows that it learned before that.
    rows, labels : list of ndarray
        All that it learned, the replayed rows first, in the form in which it learned them.
    changes : dict of int to list of (int, bool)
        After so many rows: new budgets, and whether supports beyond the budget were removed.
    """

    expert: Expert
    first: int
    replayed: int = 0
    rows: list[Floats] = field(default_factory=list)
    labels: list[Floats] = field(default_factory=list)
    changes: dict[int, list[tuple[int, bool]]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """How many rows it learned."""
        return sum(map(len, self.rows))

    @property
    def rounds(self) -> slice:
        """The rounds of the stream in which it took part."""
        return slice(self.first, self.first + self.n_rows - self.replayed)

    def add(self, expert: Expert, rows: Matrix, labels: Floats) -> None:
        """Append rows that it learns now."""
        if not self.rows:  # scales are set after the start
            self.expert.scales = expert.scales.copy()
        self.rows.append(np.array(rows))
        self.labels.append(np.array(labels))

    def resize(self, budget: int, *, removes: bool) -> None:
        """Append a change of the budget."""
        self.changes.setdefault(self.n_rows, []).append((budget, removes))

    def repeated(self, classes: Labels) -> tuple[Run, list[Removal], Ints]:
        """Learn the rows again; return the run, the removals of supports, and the last supports."""
        X, y = np.vstack(self.rows), np.concatenate(self.labels)
        first = self._learn(X, y, classes, set())
        drops = np.flatnonzero(np.diff(first[0].trace.support_sizes, prepend=0) < 0)
        # The size also falls in the first round after a smaller budget.
        return self._learn(X, y, classes, {int(t) for t in drops} - set(self.changes))

    def _learn(
        self, X: Floats, y: Floats, classes: Labels, exchanges: set[int]
    ) -> tuple[Run, list[Removal], Ints]:
        """Learn the rows; `exchanges` are the rounds in which supports are exchanged."""
        learner = self.expert.new_learner(X[0], 1, self.expert.budget)
        n, names = len(y), learner.ledger
        margins, sizes, ledger = np.empty(n), np.empty(n, np.int64), np.empty((n, len(names)))
        removals: list[Removal] = []
        cuts = sorted({0, n, *self.changes, *exchanges, *(t + 1 for t in exchanges)})
        for start, stop in zip(cuts, [*cuts[1:], n], strict=True):
            for budget, removes in self.changes.get(start, []):
                before = _supports(learner)
                if removes:
                    learner.truncate(budget)
                else:
                    learner.extend(budget)
                if learner.n_supports < len(before):
                    removals.append(Removal(start - 1, before, _supports(learner)))
            if stop > start:
                before, part = _supports(learner), slice(start, stop)
                learner.learn(X[part], y[part], margins[part], sizes[part], ledger[part])
                if start in exchanges:
                    removals.append(Removal(start, before, _supports(learner)))
        trace = Trace(
            margins=margins,
            mistakes=y * margins <= 0.0,
            support_sizes=sizes,
            codes=(margins > 0.0).astype(np.intp),
            classes=classes,
            ledger=ledger_columns(names, ledger[None]),
        )
        run = Run(trace, X.astype(np.float64), y, Kernel("rbf", self.expert.gamma), 1.0)
        return run, removals, _supports(learner)


def _supports(learner: Learner) -> Ints:
    """Return the rounds in which the supports were added, oldest first."""
    rounds: Ints = learner.supports.rounds[learner.supports.order[: learner.n_supports]]
    return rounds.copy()


@dataclass
class RecordedExpert(Expert):
    """An expert that records its periods, if it is of second order."""

    portfolio: Portfolio | None = None
    periods: list[Period] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learner is not None:  # a linear expert starts with the portfolio
            self._start_period(0)

    def _start_period(self, first: int) -> None:
        blank = Expert(self.design, None, self.gamma, loss=self.loss, linear=self.linear, full=self.full)
        blank.budget = self.budget
        self.periods.append(Period(blank, first))

    @property
    def _recorded(self) -> bool:
        return self.design.kind in ("linear", "kernel", "scaled")

    def start(self, row: Floats, outputs: int, share: int, most: int) -> bool:
        started = super().start(row, outputs, share, most)
        if started and self._recorded:
            assert self.portfolio is not None
            self._start_period(self.portfolio.pool.seen)
        return started

    def replay(self, rows: Matrix, labels: Floats, importances: Floats) -> None:
        if self._recorded:
            self.periods[-1].add(self, rows, labels)
            self.periods[-1].replayed += len(labels)
        super().replay(rows, labels, importances)

    def learn(
        self,
        views: Views,
        labels: Floats,
        scores: Floats,
        sizes: Ints,
        importances: Floats | None = None,
    ) -> None:
        if self._recorded:
            self.periods[-1].add(self, self.rows(views), labels)
        super().learn(views, labels, scores, sizes, importances)

    def truncate(self, budget: int) -> None:
        self.periods[-1].resize(budget, removes=True)
        super().truncate(budget)

    def extend(self, budget: int) -> None:
        self.periods[-1].resize(budget, removes=False)
        super().extend(budget)


def recorded_periods(portfolio: Portfolio, rows: Floats, labels: Floats) -> list[list[Period]]:
    """Let a new portfolio learn the stream; return the periods of each of its experts.

    A start that did not succeed, because not all experts of a group fit in the memory, leaves a period
    without rows. It is left out.
    """
    pool = portfolio.pool
    bits = np.random.PCG64()
    bits.state = cast(Any, pool.generator.bit_generator.state)
    # One number was drawn for each row after those that filled the reservoir.
    bits.advance(-max(pool.seen - len(pool.reservoir), 0))
    generator = np.random.Generator(bits)
    again = Portfolio(portfolio.n_features, portfolio.dtype, portfolio.memory, 1, generator, pool.plan)
    experts = [RecordedExpert(**vars(expert), portfolio=again) for expert in again.pool.experts]
    again.pool.experts = list[Expert](experts)
    again.learn(rows, labels)
    return [[period for period in expert.periods if period.rows] for expert in experts]
