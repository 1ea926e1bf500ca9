"""Several kernel learners over one stream, each kernel row computed once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron._base.access import (
    close_batch,
    kernel_hypotheses_of,
    open_batch,
    thread_count,
    unchanged_on_error,
)
from budgetron._base.batches import Batch
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.rounds import batch_may_fail, restored_on_error
from budgetron._base.trace import Trace
from budgetron._core.together import Together
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.threads import one_thread

__all__ = ["Cohort"]


class Cohort:
    """Kernel learners that learn the same rows.

    Those with the same kernel share its values, also between the classes of each; all end as
    if each had learned alone, to rounding. What one of them costs is estimated: the time of its own
    rounds, and of the shared kernel values the part that falls to its supports.

    Parameters
    ----------
    models : sequence of kernel learners
    """

    def __init__(self, models: Sequence[KernelClassifier]) -> None:
        self.models = list(models)
        self.seconds: NDArray[np.float64] = np.zeros(len(self.models))
        self._groups: list[tuple[Together, list[int]]] = []
        self._taught: list[int] = []

    def progressive_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> list[Trace]:
        """What `progressive_fit` of each would return; `y` may be a list with labels for each."""
        labels = y if isinstance(y, list) else [y] * len(self.models)
        batches, traces = [], []
        with ExitStack() as unless_it_fails:
            for i, (model, own) in enumerate(zip(self.models, labels, strict=True)):
                with self._timed(i):
                    unless_it_fails.enter_context(unchanged_on_error(model))
                    batches.append(open_batch(model, X, own, classes))
            # If one fails, all go back.
            pairs = list(zip(self.models, batches, strict=True))
            may_fail = any(batch_may_fail(kernel_hypotheses_of(model), batch) for model, batch in pairs)
            for model in self.models:
                unless_it_fails.enter_context(restored_on_error(kernel_hypotheses_of(model), may_fail))
            if [
                id(learner) for model in self.models for learner in kernel_hypotheses_of(model)
            ] != self._taught:
                self._find_groups()
            with one_thread(), defer_interrupts():
                for group, members in self._groups:
                    self._learn(group, members, batches)
                for i, (model, batch) in enumerate(pairs):
                    with self._timed(i):
                        traces.append(close_batch(model, batch))
        return traces

    def _learn(self, group: Together, members: list[int], batches: list[Batch]) -> None:
        """The rounds of learners that share, and what each of them cost."""
        outputs = [(batches[i], c) for i in members for c in range(len(kernel_hypotheses_of(self.models[i])))]
        before = group.kernel_values, group.kernel_seconds, group.seconds.copy()
        group.learn(
            batches[members[0]].X,
            [batch.signs[c] for batch, c in outputs],
            [_part(batch.margins, c) for batch, c in outputs],
            [_part(batch.sizes, c) for batch, c in outputs],
            max(thread_count(self.models[i]) for i in members),
            [batch.importances for batch, _ in outputs],
        )
        # A kernel value costs the same whoever asks for it; alone, each would ask for those of its supports.
        asked = np.array([_part(batch.sizes, c).sum() for batch, c in outputs])
        share = asked / max(1, group.kernel_values - before[0])
        costs = group.seconds - before[2] + np.minimum(share, 1.0) * (group.kernel_seconds - before[1])
        np.add.at(self.seconds, [i for i in members for _ in kernel_hypotheses_of(self.models[i])], costs)

    @contextmanager
    def _timed(self, i: int) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[i] += time.perf_counter() - start

    def _find_groups(self) -> None:
        """Who shares: those with the same kernel and the same type of rows."""
        members: list[list[int]] = []
        for i, model in enumerate(self.models):
            mine = kernel_hypotheses_of(model)[0]
            for group in members:
                theirs = kernel_hypotheses_of(self.models[group[0]])[0]
                alike = mine.dtype == theirs.dtype and mine.supports.sparse == theirs.supports.sparse
                if alike and mine.kernel.equals(theirs.kernel):
                    group.append(i)
                    break
            else:
                members.append([i])
        self._groups = [
            (Together([learner for i in group for learner in kernel_hypotheses_of(self.models[i])]), group)
            for group in members
        ]
        self._taught = [id(learner) for model in self.models for learner in kernel_hypotheses_of(model)]


def _part(array: NDArray[Any] | None, output: int) -> NDArray[Any]:
    assert array is not None
    part: NDArray[Any] = array[output]
    return part
