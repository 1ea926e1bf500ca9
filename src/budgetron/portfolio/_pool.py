"""The pool: experts that share one memory, and the schedule by which they start, end and grow.

Kernel experts start when the reservoir of first rows is full: its rows give the median distance, by which the
kernel widths are chosen. All get equal shares of the memory. After STAGE rounds, and after twice as many, the
weaker half of the second-order experts ends; after LAST rounds only one stays. Those that stay grow into the
memory that is released. Later, an expert that is not the best starts again if the median distance has changed
much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from budgetron._core.distances import Distances, shared
from budgetron._util.types import Floats, Matrix
from budgetron.portfolio._experts import (
    MOST_RECENT,
    UNLIMITED,
    WIDE,
    Expert,
    KernelExpert,
    Plan,
    experts_for,
)
from budgetron.portfolio._sizes import most_supports
from budgetron.portfolio._views import Scaler, Views

__all__ = ["FEWEST_ROWS", "MOST_ROWS", "ExpertPool", "TooLittleMemoryError"]

# Rows of the reservoir, at most and at least.
MOST_ROWS, FEWEST_ROWS = 64, 16
# Memory is reassigned after STAGE rounds, twice as many, and so on; from LAST rounds on to one expert.
STAGE, LAST = 250, 1000
# An expert starts again if the median distance changes by this factor.
MOVED = 4.0
# Rows per block, at least and at most.
SHORTEST_BLOCK, LONGEST_BLOCK = 16, 256


class TooLittleMemoryError(ValueError):
    """A portfolio does not fit in its memory."""

    def __init__(self, needed: int, d: int) -> None:
        super().__init__(f"memory must be at least {needed:,} bytes for rows of {d:,} features")
        self.needed, self.d = needed, d


class ExpertPool:
    """Experts on rows of d features in one memory.

    Parameters
    ----------
    d : int
        Number of features.
    dtype : dtype
        Of the rows, float32 or float64.
    memory : int
        The largest number of bytes of the pool and of `overhead`.
    generator : numpy.random.Generator
        Draws the rows of the reservoir.
    plan : Plan
        Which experts there are.
    """

    def __init__(
        self, d: int, dtype: np.dtype[Any], memory: int, generator: np.random.Generator, plan: Plan
    ) -> None:
        self.d, self.memory, self.generator, self.plan = d, memory, generator, plan
        self.overhead = 0  # bytes outside of the pool that its memory must also hold
        self.row: Floats = np.zeros(d, dtype)  # a template: only its length and type are used
        self.seen = 0  # rounds that were learned
        wide = d > WIDE
        self.scaler = None if wide else Scaler.for_features(d)
        # A sample of all rows so far, with the labels of the first ones until kernel experts start
        rows = 0 if wide else self._reservoir_rows(d)
        self.reservoir: Floats = np.zeros((rows, d), dtype)
        self.first_labels = np.zeros(rows)
        self.medians = np.zeros(2)  # of squared distances, between raw and between standardised rows
        self.experts = experts_for(d, np.dtype(dtype), memory, plan)

    # ------------------------------------------------------------------ memory

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, and of the overhead."""
        arrays = [self.row, self.reservoir, self.first_labels, self.medians]
        scaler = 0 if self.scaler is None else self.scaler.nbytes
        experts = sum(expert.nbytes for expert in self.experts)
        return sum(array.nbytes for array in arrays) + scaler + experts + self.overhead

    @property
    def promised(self) -> int:
        """Bytes that all arrays may take before memory is reassigned."""
        return self.nbytes + sum(
            expert.promised(self.row) - expert.nbytes for expert in self._kernel_experts()
        )

    @property
    def free(self) -> int:
        """Bytes of the memory that are not used."""
        return self.memory - self.nbytes

    def shrink(self, memory: int) -> None:
        """Use less memory from now on: second-order experts shrink; then experts end until the others fit."""
        self.memory = memory
        second = self._active_second_order()
        if second and self.promised > memory:
            share = (self.free + sum(expert.nbytes for expert in second)) // len(second)
            for expert in second:
                expert.shrink(self.row, share)
        while self.promised > memory:
            active = [expert for expert in self.experts if expert.active]
            kernels = [expert for expert in active if expert.has_kernel]
            if kernels:
                max(kernels, key=lambda expert: expert.mistakes / max(expert.rounds, 1)).end()
            elif len(active) > 1:  # new features make a full covariance too large
                max(active, key=lambda expert: expert.nbytes).end()
            else:
                raise TooLittleMemoryError(self.promised, self.d)

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        if self.scaler is None or d > WIDE:
            raise ValueError(
                f"features can be added up to {WIDE:,}, and there would be {d:,}; "
                "hash the features (river.feature_extraction.FeatureHasher)"
            )
        for expert in self.experts:
            if expert.active:
                expert.learner.add_features(expert.width_of(d))
        more = d - self.d
        self.scaler.add_features(more)
        self.row, self.d = np.pad(self.row, (0, more)), d
        # A smaller sample of wider rows; until kernel experts start, with room for one more row.
        started = self.seen >= len(self.reservoir)
        rows = max(self._reservoir_rows(d), 0 if started else self.seen + 1)
        self.first_labels = self.first_labels[:rows].copy()
        self.reservoir = np.pad(self.reservoir[:rows], ((0, 0), (0, more)))
        self.shrink(self.memory)

    def _reservoir_rows(self, d: int) -> int:
        return int(np.clip(self.memory // 16 // (d * self.row.itemsize), FEWEST_ROWS, MOST_ROWS))

    # ------------------------------------------------------------------ rows

    def block_rows(self) -> int:
        """Return how many rows are learned or predicted at a time."""
        return int(np.clip(self.memory // 32 // (8 * self.d), SHORTEST_BLOCK, LONGEST_BLOCK))

    def block_ends(self, n_rows: int) -> Iterator[int]:
        """Yield the ends of blocks: at events of the schedule, and before an expert needs more room."""
        done, before = 0, self.seen
        while done < n_rows:
            at = before + done
            event = len(self.reservoir) if at < len(self.reservoir) else STAGE
            while event <= at:
                event *= 2
            room = min((e.room for e in self._kernel_experts() if e.second_order), default=UNLIMITED)
            done = min(n_rows, done + max(1, min(self.block_rows(), event - at, room)))
            yield done

    def same_rows(self) -> list[list[int]]:
        """Return groups of kernel experts that see the same rows, by index."""
        active = [i for i, expert in enumerate(self.experts) if expert.has_kernel and expert.active]
        groups = (
            [i for i in active if self.experts[i].standardised == standardised]
            for standardised in (False, True)
        )
        return [group for group in groups if len(group) > 1]

    def distances(self, views: Views) -> dict[int, Distances]:
        """Return, by expert, distances between rows and supports that are computed once for all widths."""
        found: dict[int, Distances] = {}
        for group in self.same_rows():
            learners = [self.experts[i].learner for i in group]
            distances = shared(
                self.experts[group[0]].rows(views),
                [learner.supports for learner in learners],
                [self.seen - learner.rounds for learner in learners],
                self.memory / 8,
            )
            found |= {i: table for i, table in zip(group, distances, strict=True) if table is not None}
        return found

    def sample(self, X: Matrix, y: Floats) -> None:
        """Count the rows, and keep the reservoir a random sample of all rows so far."""
        rows = len(self.reservoir)
        if rows and self.seen < rows:  # blocks end where the reservoir is full
            self.reservoir[self.seen : self.seen + len(y)] = X
            self.first_labels[self.seen : self.seen + len(y)] = y
        elif rows:
            places = self.generator.random(len(y)) * (self.seen + 1 + np.arange(len(y)))
            for t in np.flatnonzero(places < rows):
                self.reservoir[int(places[t])] = X[t]
        self.seen += len(y)

    # ------------------------------------------------------------------ schedule

    def run_schedule(self) -> list[tuple[int, int]]:
        """Start, end and grow experts if it is time; return pairs of an ended expert and its successor."""
        transfers: list[tuple[int, int]] = []
        if self.scaler is None:  # rows are wide, and there are linear experts only
            return transfers
        stage = self.seen // STAGE if self.seen % STAGE == 0 else 0
        if self.seen == len(self.reservoir):
            self._start_kernel_experts(self.scaler)
        elif stage and stage & (stage - 1) == 0:  # a power of two
            transfers = self.reassign_memory()
        for expert in self._active_second_order():
            expert.make_room()
        return transfers

    def _kernel_experts(self) -> list[KernelExpert]:
        return [expert for expert in self.experts if isinstance(expert, KernelExpert)]

    def _active_second_order(self) -> list[KernelExpert]:
        return [expert for expert in self._kernel_experts() if expert.second_order and expert.active]

    def _measure(self, scaler: Scaler) -> Floats:
        standardised = scaler.apply(self.reservoir)
        return np.array([median_distance(self.reservoir), median_distance(standardised)])

    def _start_kernel_experts(self, scaler: Scaler) -> None:
        """Start the kernel experts, and let them learn the rows so far."""
        self.medians = self._measure(scaler)
        for expert in self._kernel_experts():
            if not expert.set_width(self.medians[int(expert.standardised)], self.row.dtype):
                expert.end()
        waiting = [expert for expert in self._kernel_experts() if not expert.ended]
        recent = [expert for expert in waiting if not expert.second_order]
        second = [expert for expert in waiting if expert.second_order]
        labels, self.first_labels = self.first_labels, np.zeros(0)
        self._start_with_shares(recent, self.free // 8, MOST_RECENT)
        # As many as can have enough supports each, the most promising first.
        while second and not self._start_with_shares(second, self.free, self._most_supports()):
            second.pop().end()
        if not second:  # the memory is too small for these; the others use it
            self._start_with_shares(recent, self.free, MOST_RECENT)
        views = Views(self.reservoir, scaler.apply(self.reservoir))
        for expert in self._kernel_experts():
            if expert.active:
                expert.learn_rows(expert.rows(views), labels)

    def _start_with_shares(self, experts: list[KernelExpert], memory: int, most: int) -> bool:
        """Start experts with equal shares of some memory; if not all fit, start none and return False."""
        if not experts:
            return True
        memory += sum(expert.nbytes for expert in experts)
        started = [expert.start(self.row, memory // len(experts), most) for expert in experts]
        if not all(started):
            for expert in experts:
                expert.learner = None
        for expert in experts:
            expert.ended = not expert.active
        return all(started)

    def _most_supports(self) -> int:
        """The most supports of an expert: no more than the rounds until memory is reassigned."""
        most = most_supports(self.memory)
        return min(most, max(STAGE, 2 * self.seen)) if self.plan.moving else most

    def reassign_memory(self) -> list[tuple[int, int]]:
        """End the weaker half of the second-order experts, and let the others grow into their memory."""
        active = self._active_second_order()
        # With M mistakes of the best, experts with at most M + sqrt(M) count as equally good: the first ones
        # stay.
        best = min((expert.recent_mistakes for expert in active), default=0)
        ranked = sorted(active, key=lambda expert: max(expert.recent_mistakes, best + best**0.5))
        fewest = 1 if self.seen >= LAST else 2
        kept = ranked[: max(fewest, len(ranked) // 2)] if self.plan.moving else ranked
        transfers = []
        for expert in ranked[len(kept) :]:
            transfers.append((self.experts.index(expert), self.experts.index(kept[0])))
            expert.end()
        if kept == ranked:
            self._restart_weakest(ranked)
        if self.plan.moving and kept:
            share = (sum(expert.nbytes for expert in kept) + self.free) // len(kept)
            for expert in kept:
                expert.grow(self.row, share, self._most_supports())
        for other in self.experts:
            other.recent_mistakes = 0
        return transfers

    def _restart_weakest(self, active: list[KernelExpert]) -> None:
        """Start the weakest expert again if the distances between rows have changed much since it started."""
        assert self.scaler is not None
        best = min(expert.recent_mistakes for expert in self.experts if expert.active)
        weakest = max(active, key=lambda expert: expert.recent_mistakes, default=None)
        if weakest is None or weakest.recent_mistakes == best:
            return
        now, place = self._measure(self.scaler), int(weakest.standardised)
        moved = not 1.0 / MOVED < now[place] / self.medians[place] < MOVED
        if moved and weakest.set_width(now[place], self.row.dtype):
            self.medians[place] = now[place]
            weakest.restart(self.row)


def median_distance(X: Matrix) -> float:
    """Return the median squared distance between different rows; the number of features if all are equal."""
    rows = X.astype(np.float64)
    # From differences: rows may be close to each other and far from the origin.
    squares = np.concatenate([np.square(rows[i + 1 :] - row).sum(axis=1) for i, row in enumerate(rows)])
    squares = squares[squares > 0.0]
    return float(np.median(squares)) if len(squares) else float(X.shape[1])


def active_experts(experts: list[Expert]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which experts are active."""
    return np.array([expert.active for expert in experts])
