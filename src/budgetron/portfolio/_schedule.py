"""The schedule by which the experts of a pool start, end and grow.

Kernel experts start after FEWEST_ROWS rounds. The median distance of the rows so far sets the kernel widths.
They start again with all rows so far when the reservoir is full, because more rows give a better median.
Reviews take place after FIRST_REVIEW rounds, twice as many, and so on. A review ends the experts that
were significantly worse than the best one, starts new experts, and gives the free memory to those that stay.
Feature scales are learned from a window of recent rows: at reviews, and after a change of the stream (see
`_changes`).
"""

from __future__ import annotations

import numpy as np

from budgetron import relevance
from budgetron._util.types import Floats, Ints
from budgetron.portfolio._changes import CHUNK, ChangeDetector
from budgetron.portfolio._experts import MOST_RECENT_SUPPORTS, UNLIMITED, Expert, most_supports
from budgetron.portfolio._pool import FEWEST_ROWS, ExpertPool, median_distance
from budgetron.portfolio._views import Scaler, Views

__all__ = ["CHANGED", "NO_TARGET", "ScheduledPool"]

# The number of steps that learn the feature scales, and the rows that one step uses, at least and at most. In
# between, the two matrices of a step take 1 / STEP_SHARE of the memory.
SCALE_STEPS = 25
FEWEST_IN_STEP, MOST_IN_STEP, STEP_SHARE = 250, 512, 7
# Feature scales are learned from at least this many rows.
FEWEST_SCALED = 128
# The first review is after this many rounds, and the next ones after twice as many each.
FIRST_REVIEW = 256
# For the first reviews, the largest number of second-order experts without learned scales that stay. After
# later reviews, one stays. Of several, the best one of each loss stays, unless it is worse by more than
# END_DEVIATIONS: only many rounds show which loss is better. On noisy labels it is the hinge loss.
MOST_KEPT = {256: 5, 512: 3, 1024: 2}
# After a change of the stream, feature scales are learned again when this many rounds have passed: early, to
# follow the change soon, and later, because more rows give better scales.
ROUNDS_AFTER_CHANGE = (128, 384, 1024)
# Of two experts, let a be the number of rounds in which only the first made a mistake, and b the number in
# which only the second did. The first is worse by (a - b) / sqrt(a + b) standard deviations. An expert ends
# if it is worse than the best one by more than END_DEVIATIONS.
END_DEVIATIONS = 3.0
# From the review after BEST_GROWS_FROM rounds on, the best expert may have `most_supports`. The others have
# at most MOST_SUPPORTS_OF_OTHERS, with two exceptions. An expert with new scales may have as many as the best
# one. An expert that was the best before keeps its supports until it is worse than the best one by more than
# SHRINK_DEVIATIONS standard deviations.
BEST_GROWS_FROM, MOST_SUPPORTS_OF_OTHERS, SHRINK_DEVIATIONS = 1024, 350, 2.0
# At a review, memory is reserved for at most GROWTH_FACTOR times the supports of the best expert: some
# experts need few supports, and the others can use the rest.
GROWTH_FACTOR = 2
# A new expert that is compared with one of another kind ends if it is worse by more than TRIAL_DEVIATIONS
# standard deviations. One that is compared with one of the same kind ends if it is worse by more than
# REPLACE_DEVIATIONS, or than TRIAL_DEVIATIONS if its loss is another one. Otherwise it replaces the other
# one, because its scales come from more rows.
TRIAL_DEVIATIONS, REPLACE_DEVIATIONS = 1.0, 0.5
# From the review after this many rounds on, second-order experts of all kinds are compared with each other.
COMPARE_ALL = 4096
# A new expert is compared with the one that it may replace after TRIAL_ROUNDS rounds, or after
# 1 / TRIAL_SHARE of all rounds so far if this is longer.
TRIAL_ROUNDS, TRIAL_SHARE = 512, 8
# Instead of the expert that gets the weight of one that ends; and for an expert that starts after a change.
NO_TARGET, CHANGED = -1, -2

# For each expert that ended or started: its place, and the place of the expert that gets its weights.
Changes = list[tuple[int, int]]


class ScheduledPool(ExpertPool):
    """A pool whose experts start, end and grow by the schedule."""

    def run_schedule(self, wrong: Ints) -> Changes:
        """Start, end and grow experts if it is time, after rounds with this many mistakes of each expert.

        Return a pair (expert, target) for each expert that ended or started. The combiners' weights of an
        expert that ended are added to those of the target. If it is NO_TARGET, they are reset. For an expert
        that starts after a change, it is CHANGED.
        """
        if self.scaler is None:  # rows are wide, and there are linear experts only
            return []
        changes: Changes = []
        self.chunk_errors += int(wrong[self.watched]) if self.watched >= 0 else 0
        if self.seen in (FEWEST_ROWS, len(self.reservoir)):
            self._start_kernel_experts(self.scaler)
        elif self.seen % CHUNK == 0 and self.plan.second_order:
            changes += self._end_chunk()
            review = self.seen // FIRST_REVIEW if self.seen % FIRST_REVIEW == 0 else 0
            if review and review & (review - 1) == 0:  # a power of two
                changes += self.review()
        for expert in self._second_order():
            expert.make_room()
        return changes

    def _start_kernel_experts(self, scaler: Scaler) -> None:
        """Start the kernel experts, also those that are active, and let them learn the rows so far."""
        self.medians = self._measure(scaler)
        self.only_first_wrong[:] = 0
        for expert in self._kernel_experts():
            median = self.medians[int(expert.design.standardised)]
            expert.learner, expert.ended = None, not expert.set_width(median, self.row.dtype)
        waiting = [e for e in self._kernel_experts() if not e.ended and e.design.kind != "scaled"]
        recent = [expert for expert in waiting if not expert.design.second_order]
        second = [expert for expert in waiting if expert.design.second_order]
        rows, labels, weights = (
            array[: self.seen] for array in (self.reservoir, self.first_labels, self.first_weights)
        )
        if self.seen == len(self.reservoir):
            self.first_labels = self.first_weights = np.zeros(0)
        self._start_with_shares(recent, self.free // 8, MOST_RECENT_SUPPORTS)
        # As many as can have enough supports each, in the order of `designs_for`.
        while second and not self._start_with_shares(second, self.free, self._most_supports()):
            second.pop().end()
        if not second:  # the memory is too small for any of these
            self._start_with_shares(recent, self.free, MOST_RECENT_SUPPORTS)
        views = Views(rows, scaler.apply(rows))
        for expert in self._kernel_experts():
            self._replay(expert, views, labels, weights)

    def _measure(self, scaler: Scaler) -> Floats:
        rows = self.reservoir[: self.seen]
        return np.array([median_distance(rows), median_distance(scaler.apply(rows))])

    def _most_supports(self) -> int:
        """The most supports of an expert: no more than the rounds until memory is reassigned."""
        most = most_supports(self.memory)
        return min(most, max(FIRST_REVIEW, 2 * self.seen)) if self.plan.reassigns_memory else most

    # ------------------------------------------------------------------ reviews

    def review(self) -> Changes:
        """End weak experts, start new ones, and give the free memory to the experts that stay."""
        assert self.scaler is not None
        self.medians = self._measure(self.scaler)  # for experts that start now, also after a change of scale
        changes = self._end_weak() if self.plan.reassigns_memory else []
        if self.seen >= BEST_GROWS_FROM and self.plan.reassigns_memory:
            # The best one grows first, and new ones get what is left.
            changes += self._grow()
        may_restart = self.seen > max(MOST_KEPT) and self.plan.restarts and self.plan.reassigns_memory
        if not self._is_after_change() and (self.plan.restarts or self.seen <= BEST_GROWS_FROM):
            # An expert that restarts gets the other half of the free memory.
            parts = 2 if may_restart and self._expert_to_restart() is not None else 1
            changes += self._start_scaled(self._rows_since_change(), parts=parts)
        if may_restart:
            changes += self._restart_an_ended_one()
        if self.seen < BEST_GROWS_FROM and self.plan.reassigns_memory:
            changes += self._grow()
        self._watch_best()
        for expert in self.experts:
            expert.recent_mistakes = 0
        return changes

    def _is_worse(self, first: Expert, second: Expert, deviations: float) -> bool:
        """Return whether the first is worse than the second by more than this many standard deviations."""
        i, j = self.experts.index(first), self.experts.index(second)
        a, b = self.only_first_wrong[i, j], self.only_first_wrong[j, i]
        return bool(a - b > deviations * np.sqrt(a + b))

    def _fewest_errors(self, experts: list[Expert]) -> Expert:
        """Return the expert with the fewest mistakes.

        Two experts are compared in the rounds that both have played; the winner is compared with the next
        one.
        """
        best = experts[0]
        for expert in experts[1:]:
            if self._is_worse(best, expert, 0.0):
                best = expert
        return best

    def _end_weak(self) -> Changes:
        """End the experts that are significantly worse than the best, and those of a rank that is too low.

        Experts without learned scales are compared with each other, and later with all others. The rank
        decides only if more than the allowed number of experts without learned scales would stay.
        """
        on_trial = {new for new, _, _ in self.trials}
        active = [e for e in self._second_order("kernel") if self.experts.index(e) not in on_trial]
        changes: Changes = []
        if len(active) > 1:
            # If the best one has M recent mistakes, experts with at most M + sqrt(M) count as equally good.
            # Of these, the first ones stay.
            least = min(expert.recent_mistakes for expert in active)
            ranked = sorted(active, key=lambda expert: max(expert.recent_mistakes, least + least**0.5))
            most, best = MOST_KEPT.get(self.seen, 1), ranked[0]
            good = [expert for expert in ranked if not self._is_worse(expert, best, END_DEVIATIONS)]
            kept = good[:most]
            if most > 1:
                # the best one of each loss stays
                others = [expert for expert in good if expert.loss != best.loss]
                if others and others[0] not in kept:
                    kept[-1] = others[0]
            changes += [self._end(expert, best) for expert in ranked if expert not in kept]
        if self.seen >= COMPARE_ALL and self._second_order():
            best, on_trial = self._best(), self._on_trial()
            others = [e for e in self._second_order() if self.experts.index(e) not in on_trial]
            weak = [expert for expert in others if self._is_worse(expert, best, END_DEVIATIONS)]
            changes += [self._end(expert, best) for expert in weak]
        return changes

    def _end(self, expert: Expert, target: Expert | None) -> tuple[int, int]:
        """End an expert; return its place and that of the target of its weights."""
        expert.end()
        return self.experts.index(expert), NO_TARGET if target is None else self.experts.index(target)

    def _on_trial(self, same_kind: bool = False) -> set[int]:
        """The places of all experts that trials compare, or only those compared with one of the same kind."""
        kinds = [expert.design.kind for expert in self.experts]
        pairs = [pair for *pair, _ in self.trials if not same_kind or kinds[pair[0]] == kinds[pair[1]]]
        return {place for pair in pairs for place in pair}

    def _restart_an_ended_one(self) -> Changes:
        """Restart the best of the ended experts without learned scales; compare it with one that stayed."""
        expert = self._expert_to_restart()
        if expert is None:
            return []
        rival = next(iter(self._second_order("kernel")), self._best())
        started = self._start_late(expert, self._rows_since_change())
        if started:
            self._start_trial(started[0][0], self.experts.index(rival))
        return started

    def _expert_to_restart(self) -> Expert | None:
        """The best of the ended experts without learned scales, if at most one such expert is active."""
        ended = [e for e in self.experts if e.design.kind == "kernel" and e.ended and e.rounds]
        if not ended or len(self._second_order("kernel")) > 1 or not self._second_order():
            return None
        return min(ended, key=lambda expert: expert.error_rate)

    def _start_trial(self, new: int, previous: int) -> None:
        until = self.seen + max(TRIAL_ROUNDS, self.seen // TRIAL_SHARE // CHUNK * CHUNK)
        self.trials.append((new, previous, until))

    def _start_late(
        self,
        expert: Expert,
        n_rows: int,
        scales: Floats | None = None,
        changed: bool = False,
        parts: int = 1,
        most: int = MOST_SUPPORTS_OF_OTHERS,
    ) -> Changes:
        """Start an expert with the last rows, if one of this many parts of the free memory is enough.

        It may have at most this many supports.
        """
        assert self.scaler is not None
        if not n_rows or not expert.set_width(self.medians[int(expert.design.standardised)], self.row.dtype):
            return []
        share = self.free // parts - 8 * self.d  # the scales take the rest
        if not expert.start(self.row, self.outputs, share, most):
            return []
        expert.late = True
        if scales is not None:
            expert.scales = scales
        rows, labels, weights = self._last_rows(n_rows)
        self._replay(expert, Views(rows, self.scaler.apply(rows)), labels, weights)
        place = self.experts.index(expert)
        self.only_first_wrong[place, :] = self.only_first_wrong[:, place] = 0
        return [(place, CHANGED if changed else NO_TARGET)]

    def _grow(self) -> Changes:
        """Give the free memory to the second-order experts; later to the best one only (BEST_GROWS_FROM).

        If the free memory is too small for the best one, weaker experts end.
        """
        active, most = self._second_order(), self._most_supports()
        if not active:
            return []
        if self.seen < BEST_GROWS_FROM:
            share = self.free // len(active)
            for expert in active:
                own = expert.reserved_bytes(self.row, self.outputs) - expert.scales.nbytes
                allowed = max(min(MOST_SUPPORTS_OF_OTHERS, most), expert.budget)
                expert.grow(self.row, self.outputs, own + share, allowed)
            return []
        best = self._best()
        most = max(min(most, GROWTH_FACTOR * best.n_supports), best.budget)
        for expert in active:
            large = expert is not best and expert.allowed > MOST_SUPPORTS_OF_OTHERS
            if large and self._is_worse(expert, best, SHRINK_DEVIATIONS):
                expert.shrink(self.row, self.outputs, UNLIMITED, MOST_SUPPORTS_OF_OTHERS)
        return self._grow_best(best, most)

    def _grow_best(self, best: Expert, most: int) -> Changes:
        """Let the best expert have at most this many supports; weaker experts end until they fit."""
        changes: Changes = []
        on_trial = self._on_trial(same_kind=True)
        for expert in sorted(self._second_order(), key=lambda e: e.recent_mistakes, reverse=True):
            own = best.reserved_bytes(self.row, self.outputs) - best.scales.nbytes
            if best.largest(self.row, self.outputs, own + self.free, best.budget, most) >= most:
                break
            if expert is not best and self.experts.index(expert) not in on_trial:
                changes.append(self._end(expert, best))
        own = best.reserved_bytes(self.row, self.outputs) - best.scales.nbytes
        best.grow(self.row, self.outputs, own + self.free, most)
        return changes

    def _best(self) -> Expert:
        """The active second-order expert with the fewest mistakes since the last review."""
        return min(self._second_order(), key=self._rank)

    def _rank(self, expert: Expert) -> tuple[int, float]:
        recent = expert.recent_mistakes if expert.rounds >= self.seen // 4 else self.seen
        return recent, expert.error_rate

    def _watch_best(self) -> None:
        """From now on, pass the errors of the best second-order expert to the detector."""
        self._watch(self.experts.index(self._best()) if self._second_order() else -1)

    def _watch(self, place: int) -> None:
        if place != self.watched:
            self.watched, self.chunk_errors, self.detector = place, 0, ChangeDetector()

    # ------------------------------------------------------------------ feature scales

    def _end_chunk(self) -> Changes:
        """Test for a change of the stream, end trials, and learn new scales some time after a change."""
        errors, self.chunk_errors = self.chunk_errors, 0
        watching = self.watched >= 0 and self.plan.restarts
        if watching and self.detector.add(CHUNK, errors) and not self._is_after_change():
            self.alarm_at = self.seen
        due = [trial for trial in self.trials if trial[2] <= self.seen]
        self.trials = [trial for trial in self.trials if trial[2] > self.seen]
        changes = [change for new, previous, _ in due for change in self._end_trial(new, previous)]
        if self.alarm_at >= 0 and self.seen - self.alarm_at in ROUNDS_AFTER_CHANGE:
            changes += self._start_scaled(self._rows_since_change(), changed=True)
        return changes

    def _is_after_change(self) -> bool:
        """Whether an alarm was so recent that feature scales are still to be learned, or were learned now."""
        return self.alarm_at >= 0 and self.seen - self.alarm_at <= ROUNDS_AFTER_CHANGE[-1]

    def _rows_since_change(self) -> int:
        """The number of rows of the window that came after the last change."""
        rows = min(self.seen, len(self.window))
        # The alarm came at the end of a chunk, so the rows of this chunk came after the change, too.
        return rows if self.alarm_at < 0 else min(rows, self.seen - self.alarm_at + CHUNK)

    def _start_scaled(self, n_rows: int, changed: bool = False, parts: int = 1) -> Changes:
        """Learn feature scales from the last rows, and start an expert in one part of the free memory.

        If the stream has changed and there is no memory for the new expert, older experts end, the largest
        first.
        """
        rows, labels, weights = self._last_rows(n_rows)
        rows, labels = rows[weights > 0.0], labels[weights > 0.0]
        places = [i for i, expert in enumerate(self.experts) if expert.design.kind == "scaled"]
        if len(labels) < FEWEST_SCALED or not places or self.scaler is None:
            return []
        on_trial = {new for new, _, _ in self.trials}
        stays = next((i for i in places if self.experts[i].learner is not None and i not in on_trial), -1)
        place = next(i for i in places if i != stays)
        expert, changes = self.experts[place], []
        if expert.learner is not None:
            changes.append(self._end(expert, self.experts[stays] if stays >= 0 else None))
        self.trials = [trial for trial in self.trials if trial[0] != place]
        if not expert.set_width(self.medians[1], self.row.dtype):
            return changes
        others = self._second_order("kernel")
        if others:  # the loss of the expert with the fewest errors
            expert.loss = self._fewest_errors(others).loss
        in_step = int(np.clip(np.sqrt(self.memory / STEP_SHARE / 8), FEWEST_IN_STEP, MOST_IN_STEP))
        self.scales = relevance.feature_scales(
            self.scaler.apply(rows), labels, expert.gamma, max_rows=in_step, steps=SCALE_STEPS
        )
        most = MOST_SUPPORTS_OF_OTHERS
        if not changed and self._second_order():
            # For a fair comparison, as many as the best one may have, and the one that it may replace.
            most = max(most, self._best().allowed, self.experts[stays].allowed if stays >= 0 else 0)
        started = self._start_late(expert, n_rows, self.scales, changed, parts, most)
        while changed and not started and self._second_order():
            changes.append(self._end(max(self._second_order(), key=lambda other: other.nbytes), None))
            started = self._start_late(expert, n_rows, self.scales, changed)
        if started:
            rivals = [stays] if stays >= 0 else [self.experts.index(other) for other in others]
            rivals = [rival for rival in rivals if self.experts[rival].learner is not None]
            if rivals:
                self._start_trial(place, min(rivals, key=lambda i: self._rank(self.experts[i])))
        if self.watched < 0 or self.experts[self.watched].learner is None:
            self._watch_best()
        return changes + started

    def _end_trial(self, new: int, previous: int) -> Changes:
        """End one of two experts of the same kind. Of different kinds, only a new one may end.

        A new expert that replaces one of the same kind may have as many supports as that one.
        """
        first, second = self.experts[new], self.experts[previous]
        if first.learner is None:
            return []
        if second.learner is None:  # it was replaced, and another one is the best now
            second = self._best()
            return [self._end(first, second)] if self._is_worse(first, second, TRIAL_DEVIATIONS) else []
        if first.design.kind != second.design.kind:
            return [self._end(first, second)] if self._is_worse(first, second, TRIAL_DEVIATIONS) else []
        deviations = REPLACE_DEVIATIONS if first.loss == second.loss else TRIAL_DEVIATIONS
        if self._is_worse(first, second, deviations):
            return [self._end(first, second)]
        if previous == self.watched:
            self._watch(new)
        most, change = second.allowed, self._end(second, first)
        if most > first.allowed:
            own = first.reserved_bytes(self.row, self.outputs) - first.scales.nbytes
            first.grow(self.row, self.outputs, own + self.free, most)
        return [change]
