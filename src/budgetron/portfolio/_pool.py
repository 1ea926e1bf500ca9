"""The pool: experts that share one memory, and the rows that it keeps. Their schedule is in `_schedule`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from budgetron._core.kernel import Kernel
from budgetron._core.linear_experts import LinearExperts
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats, Ints, Matrix
from budgetron.portfolio._changes import CHUNK, ChangeDetector
from budgetron.portfolio._experts import (
    FIRST_ORDER,
    FULL_COVARIANCE_LIMIT,
    UNLIMITED,
    WIDE,
    Expert,
    Plan,
    designs_for,
)
from budgetron.portfolio._views import Scaler, Views

__all__ = ["ExpertPool", "TooLittleMemoryError"]

# Rows of the reservoir, at most and at least.
MOST_ROWS, FEWEST_ROWS = 64, 16
# Rows of the window, at most and at least; the window takes at most 1 / WINDOW_SHARE of the memory. If it had
# fewer rows, there is none: experts with scales from so few rows are often worse than those with equal
# scales, and take their memory.
MOST_WINDOW, FEWEST_WINDOW, WINDOW_SHARE = 2048, 256, 16
# The smallest number of rows per block; the largest is CHUNK.
SHORTEST_BLOCK = 16

NO_ROWS = np.zeros(0, np.int64)


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
    outputs : int
        One for two classes, otherwise one for each class.
    generator : numpy.random.Generator
        Draws the rows of the reservoir.
    plan : Plan
        Which experts there are.
    """

    def __init__(
        self,
        d: int,
        dtype: np.dtype[Any],
        memory: int,
        outputs: int,
        generator: np.random.Generator,
        plan: Plan,
    ) -> None:
        self.d, self.memory, self.outputs, self.generator, self.plan = d, memory, outputs, generator, plan
        self.overhead = 0  # bytes outside of the pool that its memory must also hold
        self.row: Floats = np.zeros(d, dtype)  # a template: only its length and type are used
        self.seen = 0  # rounds that were learned
        wide = d > WIDE
        self.scaler = None if wide else Scaler.for_features(d)
        # A sample of all rows so far, with the labels of the first ones until it is full
        rows = 0 if wide else self._reservoir_rows(d)
        self.reservoir: Floats = np.zeros((rows, d), dtype)
        self.first_labels, self.first_weights = np.zeros(rows), np.ones(rows)
        self.medians = np.zeros(2)  # of squared distances, between raw and between standardised rows
        # The last rows and their labels; row t is in place t modulo the length
        rows = 0 if wide else self._window_rows(d)
        self.window: Floats = np.zeros((rows, d), dtype)
        self.window_labels, self.window_weights = np.zeros(rows), np.ones(rows)
        self.experts = [Expert(design) for design in designs_for(d, plan)]
        self.first_order_experts = LinearExperts(FIRST_ORDER, self._width(d), np.dtype(dtype), outputs)
        # For each pair of experts, the rounds since both started in which only the first made a mistake
        n = len(self.experts)
        self.only_first_wrong: Ints = np.zeros((n, n), np.int64)
        # The second-order expert whose errors the detector gets, its errors in the current chunk, and the
        # round of the last alarm; -1 if there was none
        self.watched, self.chunk_errors, self.alarm_at = -1, 0, -1
        self.scales: Floats = np.zeros(0)  # the feature scales that were learned last
        # New experts: the place of each, that of the expert that it may replace, and the round of the
        # comparison
        self.trials: list[tuple[int, int, int]] = []
        self.detector = ChangeDetector()
        for expert in self.experts:
            if expert.design.kind == "linear":
                # A full covariance takes 4 d^2 bytes, and as many operations per round.
                expert.full = d <= FULL_COVARIANCE_LIMIT and 4 * (d + 1) ** 2 <= memory // 16
                rule = expert.new_rule(outputs, 1)
                expert.budget = expert.allowed = 1
                # No row is ever stored. A slab for whole rows is faster for single rows, and takes up to
                # 128 d bytes.
                sparse = wide or 3 * 128 * d > memory // 64
                expert.learner = Learner(Kernel("rbf", 1.0), rule, d, dtype, sparse)

    def _width(self, d: int) -> int:
        """Number of features that first-order experts see: standardised rows have a constant feature."""
        return d + 1 if self.scaler is not None else d

    # ------------------------------------------------------------------ memory

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, and of the overhead."""
        arrays = [self.row, self.reservoir, self.first_labels, self.medians, self.window, self.window_labels]
        arrays += [self.scales, self.first_weights, self.window_weights]
        counts = self.only_first_wrong.nbytes + self.detector.counts.nbytes
        scaler = 0 if self.scaler is None else self.scaler.nbytes
        experts = sum(expert.nbytes for expert in self.experts) + self.first_order_experts.nbytes
        return sum(array.nbytes for array in arrays) + counts + scaler + experts + self.overhead

    @property
    def reserved_bytes(self) -> int:
        """Bytes that all arrays may take before memory is reassigned."""
        growth = [e.reserved_bytes(self.row, self.outputs) - e.nbytes for e in self._second_order()]
        return self.nbytes + sum(growth)

    @property
    def free(self) -> int:
        """Bytes of the memory that are neither used nor reserved for the growth of experts."""
        return self.memory - self.reserved_bytes

    def shrink(self, memory: int) -> None:
        """Use less memory from now on: second-order experts shrink; then experts end until the others fit."""
        self.memory = memory
        second = self._second_order()
        if second and self.reserved_bytes > memory:
            share = (memory - self.nbytes + sum(expert.nbytes for expert in second)) // len(second)
            for expert in second:
                expert.shrink(self.row, self.outputs, share)
        while self.reserved_bytes > memory:
            active = [expert for expert in self.experts if expert.learner is not None]
            kernels = [expert for expert in active if expert.design.has_kernel]
            if kernels:
                max(kernels, key=lambda expert: expert.mistakes / max(expert.rounds, 1)).end()
            elif active:  # new features make a full covariance too large
                max(active, key=lambda expert: expert.nbytes).end()
            elif len(self.window):
                self.window, self.window_labels = self.window[:0].copy(), self.window_labels[:0].copy()
                self.window_weights = self.window_weights[:0].copy()
            else:
                raise TooLittleMemoryError(self.reserved_bytes, self.d)

    def add_output(self, place: int) -> None:
        """Add a class at this place; the one output of two classes first becomes one for each."""
        for labels in (self.first_labels, self.window_labels):
            codes = (labels > 0.0).astype(np.float64) if self.outputs == 1 else labels
            labels[:] = codes + (codes >= place)
        self.first_order_experts.add_output(place)
        for expert in self.experts:
            if expert.learner is not None:
                expert.learner.add_output(place)
        self.outputs = self.first_order_experts.outputs

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        if self.scaler is None or d > WIDE:
            raise ValueError(
                f"features can be added up to {WIDE:,}, and there would be {d:,}; "
                "hash the features (river.feature_extraction.FeatureHasher)"
            )
        more = d - self.d
        for expert in self.experts:
            if expert.learner is not None:
                expert.learner.add_features(d)
                expert.scales = np.pad(
                    expert.scales, (0, more if len(expert.scales) else 0), constant_values=1.0
                )
        self.first_order_experts.add_features(self._width(d))
        self.scales = np.pad(self.scales, (0, more if len(self.scales) else 0), constant_values=1.0)
        self.scaler.add_features(more)
        self.row, self.d = np.pad(self.row, (0, more)), d
        # A smaller sample of wider rows; until it is full, with room for one more row.
        started = self.seen >= len(self.reservoir)
        rows = max(self._reservoir_rows(d), 0 if started else self.seen + 1)
        self.first_labels, self.first_weights = (
            self.first_labels[:rows].copy(),
            self.first_weights[:rows].copy(),
        )
        self.reservoir = np.pad(self.reservoir[:rows], ((0, 0), (0, more)))
        self._set_window(min(len(self.window), self._window_rows(d)), more)
        self.shrink(self.memory)

    def _set_window(self, rows: int, more: int) -> None:
        """Replace the window by one with this many rows and `more` new features; keep the last rows."""
        kept, labels, weights = self._last_rows(min(rows, self.seen))
        self.window = np.zeros((rows, self.d), self.row.dtype)
        self.window_labels, self.window_weights = np.zeros(rows), np.ones(rows)
        if rows:
            places = np.arange(self.seen - len(labels), self.seen) % rows
            self.window[places] = np.pad(kept, ((0, 0), (0, more)))
            self.window_labels[places], self.window_weights[places] = labels, weights

    def _reservoir_rows(self, d: int) -> int:
        return int(np.clip(self.memory // 16 // (d * self.row.itemsize), FEWEST_ROWS, MOST_ROWS))

    def _window_rows(self, d: int) -> int:
        if not self.plan.relevance or not self.plan.second_order:
            return 0
        rows = self.memory // WINDOW_SHARE // (d * self.row.itemsize + 16)
        return min(int(rows), MOST_WINDOW) if rows >= FEWEST_WINDOW else 0

    # ------------------------------------------------------------------ rows

    def block_rows(self) -> int:
        """Return how many rows are learned or predicted at a time."""
        return int(np.clip(self.memory // 32 // (8 * self.d), SHORTEST_BLOCK, CHUNK))

    def block_ends(self, n_rows: int) -> Iterator[int]:
        """Yield the ends of blocks: at events of the schedule, and before an expert needs more room."""
        done, before = 0, self.seen
        while done < n_rows:
            at = before + done
            full = FEWEST_ROWS if at < FEWEST_ROWS else len(self.reservoir)
            event = full if at < len(self.reservoir) else (at // CHUNK + 1) * CHUNK
            room = min((expert.room for expert in self._second_order()), default=UNLIMITED)
            done = min(n_rows, done + max(1, min(self.block_rows(), event - at, room)))
            yield done

    def with_hypothesis(self) -> list[int]:
        """Return the places of the experts that have a hypothesis of their own.

        Those with the most supports come first: they take the most time.
        """
        places = [i for i, expert in enumerate(self.experts) if expert.learner is not None]
        return sorted(places, key=lambda i: -self.experts[i].n_supports)

    def keep_rows(self, X: Matrix, labels: Floats, weights: Floats | None) -> None:
        """Count the rows; keep the reservoir a random sample of all rows, and the window the last ones."""
        rows, n = len(self.reservoir), len(labels)
        if rows and self.seen < rows:  # blocks end where the reservoir is full
            self.reservoir[self.seen : self.seen + n] = X
            self.first_labels[self.seen : self.seen + n] = labels
            self.first_weights[self.seen : self.seen + n] = 1.0 if weights is None else weights
        elif rows:
            places = self.generator.random(n) * (self.seen + 1 + np.arange(n))
            for t in np.flatnonzero(places < rows):
                self.reservoir[int(places[t])] = X[t]
        if len(self.window):
            at = (self.seen + np.arange(n)) % len(self.window)
            self.window[at], self.window_labels[at] = X, labels
            self.window_weights[at] = 1.0 if weights is None else weights
        self.seen += n

    def _last_rows(self, n: int) -> tuple[Floats, Floats, Floats]:
        """Return the last n rows, their labels and their weights, in order."""
        places = (
            np.arange(self.seen - n, self.seen) % max(len(self.window), 1) if len(self.window) else NO_ROWS
        )
        return self.window[places], self.window_labels[places], self.window_weights[places]

    # ------------------------------------------------------------------ experts

    def _kernel_experts(self) -> list[Expert]:
        return [expert for expert in self.experts if expert.design.has_kernel]

    def _second_order(self, kind: str = "") -> list[Expert]:
        """The active experts with supports and a covariance; of one kind if it is given."""
        return [
            expert
            for expert in self.experts
            if expert.learner is not None and expert.design.second_order and kind in ("", expert.design.kind)
        ]

    def _replay(self, expert: Expert, views: Views, labels: Floats, weights: Floats) -> None:
        """Let a new expert learn rows from before it started; these rounds are not counted."""
        if expert.learner is not None:
            start = 0
            while start < len(labels):
                stop = min(len(labels), start + max(1, min(expert.room, len(labels))))
                rows = np.ascontiguousarray(expert.rows(views)[start:stop])
                expert.replay(rows, labels[start:stop], weights[start:stop])
                if expert.design.second_order:
                    expert.make_room()
                start = stop

    def _start_with_shares(self, experts: list[Expert], memory: int, most: int) -> bool:
        """Start experts with equal shares of some memory; if not all fit, start none and return False."""
        if not experts:
            return True
        memory += sum(expert.nbytes for expert in experts)
        started = [expert.start(self.row, self.outputs, memory // len(experts), most) for expert in experts]
        if not all(started):
            for expert in experts:
                expert.learner = None
        for expert in experts:
            expert.ended = not expert.active
        return all(started)


def median_distance(X: Matrix) -> float:
    """Return the median squared distance between different rows; the number of features if all are equal."""
    rows = X.astype(np.float64)
    # From differences: rows may be close to each other and far from the origin.
    squares = np.concatenate([np.square(rows[i + 1 :] - row).sum(axis=1) for i, row in enumerate(rows)])
    squares = squares[squares > 0.0]
    return float(np.median(squares)) if len(squares) else float(X.shape[1])
