"""The pool: experts that share one memory, and the schedule by which they start, end and grow.

Kernel experts start when the reservoir is full of the first rows: their median distance sets the kernel
widths. Reviews take place after FIRST_REVIEW rounds, twice as many, and so on. A review ends the experts that
were significantly worse than the best one, starts new experts, and gives the free memory to those that stay.
Feature scales are learned from a window of recent rows: at reviews, and after a change of the stream (see
`_changes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from budgetron import relevance
from budgetron._core.distances import Distances, shared
from budgetron._core.kernel import Kernel
from budgetron._core.linear_experts import LinearExperts
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats, Ints, Matrix
from budgetron.portfolio._changes import CHUNK, ChangeDetector
from budgetron.portfolio._experts import (
    FIRST_ORDER,
    FULL,
    MOST_RECENT,
    UNLIMITED,
    WIDE,
    Expert,
    Plan,
    designs_for,
    most_supports,
)
from budgetron.portfolio._views import Scaler, Views

__all__ = ["CHANGED", "NO_HEIR", "ExpertPool", "TooLittleMemoryError"]

# Rows of the reservoir, at most and at least.
MOST_ROWS, FEWEST_ROWS = 64, 16
# Rows of the window, at most and at least; the window takes at most 1 / WINDOW_SHARE of the memory.
MOST_WINDOW, FEWEST_WINDOW, WINDOW_SHARE = 1024, 128, 16
# Rows that one step of learning the feature scales uses, and the number of steps.
SCALE_ROWS, SCALE_STEPS = 250, 25
# The first review is after this many rounds, and the next ones after twice as many each.
FIRST_REVIEW = 256
# For the first reviews, the largest number of second-order experts without learned scales that stay. After
# later reviews, one stays.
MOST_KEPT = {256: 5, 512: 3, 1024: 2}
# Feature scales are learned for the first time after this many rounds, and this many rounds after a change.
FIRST_SCALES = 512
# An expert ends if a - b > SIGNIFICANT sqrt(a + b), where a is the number of rounds in which only it made a
# mistake, and b the number in which only the best expert did.
SIGNIFICANT = 3.0
# From the review after LAST rounds on, the best expert may have `most_supports`. The others grow to at most
# FEW.
LAST, FEW = 1024, 350
# A new expert is compared with the one that it may replace after TRIAL rounds, or after 1 / TRIAL_SHARE of
# all rounds so far if this is longer.
TRIAL, TRIAL_SHARE = 512, 8
# The smallest number of rows per block; the largest is CHUNK.
SHORTEST_BLOCK = 16


NO_ROWS = np.zeros(0, np.int64)
# Instead of the expert that gets the weight of one that ends; and for an expert that starts after a change.
NO_HEIR, CHANGED = -1, -2


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
        # A sample of all rows so far, with the labels of the first ones until kernel experts start
        rows = 0 if wide else self._reservoir_rows(d)
        self.reservoir: Floats = np.zeros((rows, d), dtype)
        self.first_labels, self.first_weights = np.zeros(rows), np.ones(rows)
        self.medians = np.zeros(2)  # of squared distances, between raw and between standardised rows
        # The last rows and their labels; row t is in place t modulo the length
        rows = 0 if wide else self._window_rows(d)
        self.window: Floats = np.zeros((rows, d), dtype)
        self.window_labels, self.window_weights = np.zeros(rows), np.ones(rows)
        self.experts = [Expert(design) for design in designs_for(d, plan)]
        self.bank = LinearExperts(FIRST_ORDER, self._width(d), np.dtype(dtype), outputs)
        # For each pair of experts, the rounds since both started in which only the first made a mistake
        n = len(self.experts)
        self.only_first: Ints = np.zeros((n, n), np.int64)
        # The second-order expert whose errors the detector gets, its errors in the current chunk, and the
        # round of an alarm that has not led to new scales yet; -1 if there is none
        self.watched, self.chunk_errors, self.alarm_at = -1, 0, -1
        self.scales: Floats = np.zeros(0)  # the feature scales that were learned last
        # New experts: the place of each, that of the expert that it may replace, and the round of the
        # comparison
        self.trials: list[tuple[int, int, int]] = []
        self.detector = ChangeDetector()
        for expert in self.experts:
            if expert.design.kind == "linear":
                # A full covariance takes 4 d^2 bytes, and as many operations per round.
                expert.full = d <= FULL and 4 * (d + 1) ** 2 <= memory // 16
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
        counts = self.only_first.nbytes + self.detector.counts.nbytes
        scaler = 0 if self.scaler is None else self.scaler.nbytes
        experts = sum(expert.nbytes for expert in self.experts) + self.bank.nbytes
        return sum(array.nbytes for array in arrays) + counts + scaler + experts + self.overhead

    @property
    def promised(self) -> int:
        """Bytes that all arrays may take before memory is reassigned."""
        return self.nbytes + sum(e.promised(self.row, self.outputs) - e.nbytes for e in self._second_order())

    @property
    def free(self) -> int:
        """Bytes of the memory that are neither used nor reserved for the growth of experts."""
        return self.memory - self.promised

    def shrink(self, memory: int) -> None:
        """Use less memory from now on: second-order experts shrink; then experts end until the others fit."""
        self.memory = memory
        second = self._second_order()
        if second and self.promised > memory:
            share = (memory - self.nbytes + sum(expert.nbytes for expert in second)) // len(second)
            for expert in second:
                expert.shrink(self.row, self.outputs, share)
        while self.promised > memory:
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
                raise TooLittleMemoryError(self.promised, self.d)

    def add_output(self, place: int) -> None:
        """Add a class at this place; the one output of two classes first becomes one for each."""
        for labels in (self.first_labels, self.window_labels):
            codes = (labels > 0.0).astype(np.float64) if self.outputs == 1 else labels
            labels[:] = codes + (codes >= place)
        self.bank.add_output(place)
        for expert in self.experts:
            if expert.learner is not None:
                expert.learner.add_output(place)
        self.outputs = self.bank.outputs

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
        self.bank.add_features(self._width(d))
        self.scales = np.pad(self.scales, (0, more if len(self.scales) else 0), constant_values=1.0)
        self.scaler.add_features(more)
        self.row, self.d = np.pad(self.row, (0, more)), d
        # A smaller sample of wider rows; until kernel experts start, with room for one more row.
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
            event = len(self.reservoir) if at < len(self.reservoir) else (at // CHUNK + 1) * CHUNK
            room = min((expert.room for expert in self._second_order()), default=UNLIMITED)
            done = min(n_rows, done + max(1, min(self.block_rows(), event - at, room)))
            yield done

    def same_rows(self) -> list[list[int]]:
        """Return groups of kernel experts that see the same rows, by index.

        Experts that started late have learned rows that were standardised at another time.
        """
        active = [
            i
            for i, expert in enumerate(self.experts)
            if expert.learner is not None and expert.design.kind in ("kernel", "recent") and not expert.late
        ]
        groups = (
            [i for i in active if self.experts[i].design.standardised == standardised]
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
                [learner.supports for learner in learners if learner is not None],
                [self.seen - learner.rounds for learner in learners if learner is not None],
                self.memory / 8,
            )
            found |= {i: table for i, table in zip(group, distances, strict=True) if table is not None}
        return found

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

    # ------------------------------------------------------------------ schedule

    def run_schedule(self, wrong: Ints) -> list[tuple[int, int]]:
        """Start, end and grow experts if it is time, after rounds with this many mistakes of each expert.

        Return a pair (expert, other) for each expert that ended or started. The combiners' weights of an
        expert that ended are added to those of `other`. If `other` is NO_HEIR, they are reset. For an expert
        that starts after a change, it is CHANGED.
        """
        if self.scaler is None:  # rows are wide, and there are linear experts only
            return []
        changes: list[tuple[int, int]] = []
        self.chunk_errors += int(wrong[self.watched]) if self.watched >= 0 else 0
        if self.seen == len(self.reservoir):
            self._start_kernel_experts(self.scaler)
        elif self.seen % CHUNK == 0 and self.plan.second_order:
            changes += self._watch()
            review = self.seen // FIRST_REVIEW if self.seen % FIRST_REVIEW == 0 else 0
            if review and review & (review - 1) == 0:  # a power of two
                changes += self.review()
        for expert in self._second_order():
            expert.make_room()
        return changes

    def _kernel_experts(self) -> list[Expert]:
        return [expert for expert in self.experts if expert.design.has_kernel]

    def _second_order(self, kind: str = "") -> list[Expert]:
        """The active experts with supports and a covariance; of one kind if it is given."""
        return [
            expert
            for expert in self.experts
            if expert.learner is not None and expert.design.second_order and kind in ("", expert.design.kind)
        ]

    def _measure(self, scaler: Scaler) -> Floats:
        standardised = scaler.apply(self.reservoir)
        return np.array([median_distance(self.reservoir), median_distance(standardised)])

    def _start_kernel_experts(self, scaler: Scaler) -> None:
        """Start the kernel experts, and let them learn the rows so far."""
        self.medians = self._measure(scaler)
        for expert in self._kernel_experts():
            if not expert.set_width(self.medians[int(expert.design.standardised)], self.row.dtype):
                expert.end()
        waiting = [e for e in self._kernel_experts() if not e.ended and e.design.kind != "scaled"]
        recent = [expert for expert in waiting if not expert.design.second_order]
        second = [expert for expert in waiting if expert.design.second_order]
        labels, self.first_labels = self.first_labels, np.zeros(0)
        weights, self.first_weights = self.first_weights, np.zeros(0)
        self._start_with_shares(recent, self.free // 8, MOST_RECENT)
        # As many as can have enough supports each, in the order of `designs_for`.
        while second and not self._start_with_shares(second, self.free, self._most_supports()):
            second.pop().end()
        if not second:  # the memory is too small for any of these
            self._start_with_shares(recent, self.free, MOST_RECENT)
        views = Views(self.reservoir, scaler.apply(self.reservoir))
        for expert in self._kernel_experts():
            self._replay(expert, views, labels, weights)

    def _replay(self, expert: Expert, views: Views, labels: Floats, weights: Floats) -> None:
        """Let a new expert learn rows from before it started; these rounds are not counted."""
        if expert.learner is not None:
            start = 0
            while start < len(labels):
                stop = min(len(labels), start + max(1, min(expert.room, len(labels))))
                rows = expert.rows(views)[start:stop]
                expert.learner.learn(
                    np.ascontiguousarray(rows), labels[start:stop], importances=weights[start:stop]
                )
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

    def _most_supports(self) -> int:
        """The most supports of an expert: no more than the rounds until memory is reassigned."""
        most = most_supports(self.memory)
        return min(most, max(FIRST_REVIEW, 2 * self.seen)) if self.plan.moving else most

    # ------------------------------------------------------------------ reviews

    def review(self) -> list[tuple[int, int]]:
        """End weak experts, start new ones, and give the free memory to the experts that stay."""
        assert self.scaler is not None
        self.medians = self._measure(self.scaler)  # for experts that start now, also after a change of scale
        changes = self._end_weak() if self.plan.moving else []
        if self.seen >= FIRST_SCALES and self.alarm_at < 0 and (self.plan.restarts or self.seen <= LAST):
            changes += self._start_scaled(min(self.seen, len(self.window)))
        if self.seen > max(MOST_KEPT) and self.plan.restarts and self.plan.moving:
            changes += self._let_one_return()
        if self.plan.moving:
            changes += self._grow()
        self._watch_best()
        for expert in self.experts:
            expert.recent_mistakes = 0
        return changes

    def _end_weak(self) -> list[tuple[int, int]]:
        """End experts without learned scales: those significantly worse than the best, and the last in rank.

        The rank decides only if more than the allowed number would stay.
        """
        on_trial = [young for young, _, _ in self.trials]
        active = [e for e in self._second_order("kernel") if self.experts.index(e) not in on_trial]
        if len(active) < 2:
            return []
        # If the best one has M recent mistakes, experts with at most M + sqrt(M) count as equally good. Of
        # these, the first ones stay.
        best = min(expert.recent_mistakes for expert in active)
        ranked = sorted(active, key=lambda expert: max(expert.recent_mistakes, best + best**0.5))
        most = MOST_KEPT.get(self.seen, 1)
        leader = self.experts.index(ranked[0])
        changes = []
        for place, expert in enumerate(ranked[1:], start=1):
            i = self.experts.index(expert)
            a, b = self.only_first[i, leader], self.only_first[leader, i]
            if place >= most or a - b > SIGNIFICANT * np.sqrt(a + b):
                expert.end()
                changes.append((i, leader))
        return changes

    def _let_one_return(self) -> list[tuple[int, int]]:
        """Restart the best of the ended experts, and compare it with the one that stayed."""
        ended = [e for e in self.experts if e.design.kind == "kernel" and e.ended and e.rounds]
        active = self._second_order("kernel")
        if not ended or len(active) != 1:
            return []
        expert = min(ended, key=lambda expert: expert.error_rate)
        started = self._start_late(expert, min(self.seen, len(self.window)))
        if started:
            self._start_trial(started[0][0], self.experts.index(active[0]))
        return started

    def _start_trial(self, young: int, old: int) -> None:
        self.trials.append((young, old, self.seen + max(TRIAL, self.seen // TRIAL_SHARE // CHUNK * CHUNK)))

    def _start_late(
        self, expert: Expert, n_rows: int, scales: Floats | None = None, changed: bool = False
    ) -> list[tuple[int, int]]:
        """Start an expert with the last rows, if there is memory for it."""
        assert self.scaler is not None
        most = FEW
        if not n_rows or not expert.set_width(self.medians[int(expert.design.standardised)], self.row.dtype):
            return []
        if not expert.start(self.row, self.outputs, self.free - 8 * self.d, most):  # with room for scales
            return []
        expert.late = True
        if scales is not None:
            expert.scales = scales
        rows, labels, weights = self._last_rows(n_rows)
        self._replay(expert, Views(rows, self.scaler.apply(rows)), labels, weights)
        place = self.experts.index(expert)
        self.only_first[place, :] = self.only_first[:, place] = 0
        return [(place, CHANGED if changed else NO_HEIR)]

    def _grow(self) -> list[tuple[int, int]]:
        """Give the free memory to the second-order experts, from LAST rounds on to the best one only.

        If the free memory is too small for the best one, weaker experts end.
        """
        active, changes, most = self._second_order(), [], self._most_supports()
        if not active:
            return []
        if self.seen < LAST:
            share = self.free // len(active)
            for expert in active:
                own = expert.promised(self.row, self.outputs) - expert.scales.nbytes
                expert.grow(self.row, self.outputs, own + share, max(min(FEW, most), expert.budget))
            return []
        best = self._best()
        on_trial = {place for young, old, _ in self.trials for place in (young, old)}
        for expert in sorted(active, key=lambda e: e.recent_mistakes, reverse=True):
            place = self.experts.index(expert)
            own = best.promised(self.row, self.outputs) - best.scales.nbytes
            if best.largest(self.row, self.outputs, own + self.free, best.budget, most) >= most:
                break
            if expert is not best and place not in on_trial:
                expert.end()
                changes.append((place, self.experts.index(best)))
        own = best.promised(self.row, self.outputs) - best.scales.nbytes
        best.grow(self.row, self.outputs, own + self.free, most)
        return changes

    def _best(self) -> Expert:
        """The active second-order expert with the fewest mistakes since the last review."""
        return min(
            self._second_order(),
            key=lambda e: (e.recent_mistakes if e.rounds >= self.seen // 4 else self.seen, e.error_rate),
        )

    def _watch_best(self) -> None:
        """From now on, pass the errors of the best second-order expert to the detector."""
        place = self.experts.index(self._best()) if self._second_order() else -1
        if place != self.watched:
            self.watched, self.chunk_errors, self.detector = place, 0, ChangeDetector()

    # ------------------------------------------------------------------ feature scales

    def _scaled(self) -> list[int]:
        return [i for i, expert in enumerate(self.experts) if expert.design.kind == "scaled"]

    def _watch(self) -> list[tuple[int, int]]:
        """After each chunk: test for a change, end trials, and learn new scales some time after a change."""
        changes: list[tuple[int, int]] = []
        errors, self.chunk_errors = self.chunk_errors, 0
        if (
            self.watched >= 0
            and self.plan.restarts
            and self.detector.add(CHUNK, errors)
            and self.alarm_at < 0
        ):
            self.alarm_at = self.seen
        changes += [
            change for trial in self.trials if trial[2] <= self.seen for change in self._settle(*trial[:2])
        ]
        self.trials = [trial for trial in self.trials if trial[2] > self.seen]
        if self.alarm_at >= 0 and self.seen - self.alarm_at >= FIRST_SCALES:
            self.alarm_at = -1
            changes += self._start_scaled(min(FIRST_SCALES, len(self.window)), changed=True)
        return changes

    def _start_scaled(self, n_rows: int, changed: bool = False) -> list[tuple[int, int]]:
        """Learn feature scales from the last rows, and start an expert with them.

        If the stream has changed and there is no memory for the new expert, older experts end, the largest
        first.
        """
        rows, labels, weights = self._last_rows(n_rows)
        rows, labels = rows[weights > 0.0], labels[weights > 0.0]
        places = self._scaled()
        if len(labels) < FEWEST_WINDOW or not places or self.scaler is None:
            return []
        on_trial = {young for young, _, _ in self.trials}
        stays = next((i for i in places if self.experts[i].learner is not None and i not in on_trial), -1)
        place = next(i for i in places if i != stays)
        expert, changes = self.experts[place], []
        if expert.learner is not None:
            expert.end()
            changes.append((place, stays))
        self.trials = [trial for trial in self.trials if trial[0] != place]
        standardised = self.scaler.apply(rows)
        if not expert.set_width(self.medians[1], self.row.dtype):
            return changes
        others = self._second_order("kernel")
        if others:  # the loss of the expert with the fewest errors
            expert.loss = min(others, key=lambda other: other.error_rate).loss
        self.scales = relevance.feature_scales(
            standardised, labels, expert.gamma, max_rows=SCALE_ROWS, steps=SCALE_STEPS
        )
        started = self._start_late(expert, n_rows, self.scales, changed)
        while changed and not started and self._second_order():
            outdated = max(self._second_order(), key=lambda other: other.nbytes)
            outdated.end()
            changes.append((self.experts.index(outdated), NO_HEIR))
            started = self._start_late(expert, n_rows, self.scales, changed)
        if started and stays >= 0 and self.experts[stays].learner is not None:
            self._start_trial(place, stays)
        if self.watched < 0 or self.experts[self.watched].learner is None:
            self._watch_best()
        return changes + started

    def _settle(self, young: int, old: int) -> list[tuple[int, int]]:
        """End the worse of two experts after a trial."""
        if self.experts[young].learner is None:
            return []
        if self.experts[old].learner is None:
            return []
        worse, better = old, young
        if self.only_first[young, old] >= self.only_first[old, young]:
            worse, better = young, old
        self.experts[worse].end()
        if worse == self.watched:
            self.watched, self.chunk_errors, self.detector = better, 0, ChangeDetector()
        return [(worse, better)]


def median_distance(X: Matrix) -> float:
    """Return the median squared distance between different rows; the number of features if all are equal."""
    rows = X.astype(np.float64)
    # From differences: rows may be close to each other and far from the origin.
    squares = np.concatenate([np.square(rows[i + 1 :] - row).sum(axis=1) for i, row in enumerate(rows)])
    squares = squares[squares > 0.0]
    return float(np.median(squares)) if len(squares) else float(X.shape[1])
