"""Several kernel learners over one stream, with each kernel value computed once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np
from numpy.typing import ArrayLike

from budgetron._base import access
from budgetron._base.access import kernel_hypotheses_of as hypotheses
from budgetron._base.batches import Batch
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.large_values import name_large_value
from budgetron._base.row_player import batch_may_fail, restore_hypotheses_on_error
from budgetron._base.trace import Trace
from budgetron._core.group import LearnerGroup
from budgetron._core.rounds import Learner
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Ints, Rows

__all__ = ["Cohort"]


class Cohort:
    """Kernel learners that learn the same rows.

    Learners with the same kernel share its values, also between the classes of each learner, except those
    with one hypothesis for all classes and those that merge supports. Up to rounding, the result is that of
    separate runs. The time of one learner is an estimate: the time of its own rounds,
    and a part of the time for shared kernel values, in proportion to its supports.

    Parameters
    ----------
    models : sequence of kernel learners
    """

    def __init__(self, models: Sequence[KernelClassifier]) -> None:
        self.models = list(models)
        self.seconds: Floats = np.zeros(len(self.models))
        # Hypotheses that share kernel values, and the models they belong to
        self._groups: list[tuple[LearnerGroup, list[int]]] = []
        self._alone: list[int] = []  # models that share no kernel values
        self._grouped: list[int] = []  # identities of the hypotheses in the groups

    def progressive_fit(
        self, X: Rows, y: ArrayLike | list[ArrayLike], classes: ArrayLike | None = None
    ) -> list[Trace]:
        """Return what `progressive_fit` of each model would return; a list `y` has the labels for each."""
        labels = y if isinstance(y, list) else [y] * len(self.models)
        batches: list[Batch] = []
        with ExitStack() as on_error:
            for i, (model, own) in enumerate(zip(self.models, labels, strict=True)):
                with self._timed(i):
                    on_error.enter_context(access.unchanged_on_error(model))
                    batches.append(access.open_batch(model, X, own, classes))
            # If a round of one model fails, all are restored.
            pairs = list(zip(self.models, batches, strict=True))
            may_fail = any(batch_may_fail(hypotheses(model), batch) for model, batch in pairs)
            for model in self.models:
                on_error.enter_context(restore_hypotheses_on_error(hypotheses(model), may_fail))
            if self._identities() != self._grouped:
                self._find_groups()
            traces = []
            with name_large_value(batches[0].X), one_thread(), defer_interrupts():
                for group, members in self._groups:
                    self._learn(group, members, batches)
                for i in self._alone:
                    with self._timed(i):
                        access.play_batch(self.models[i], batches[i])
                for i, (model, batch) in enumerate(pairs):
                    with self._timed(i):
                        traces.append(access.close_batch(model, batch))
        return traces

    def _learn(self, group: LearnerGroup, members: list[int], batches: list[Batch]) -> None:
        """Play the rounds of one group, and add up the time of each model."""
        outputs = [(batches[i], c) for i in members for c in range(len(hypotheses(self.models[i])))]
        before = group.kernel_values, group.kernel_seconds, group.seconds.copy()
        group.learn(
            batches[members[0]].X,
            [batch.labels[c] for batch, c in outputs],
            [_margins(batch)[c] for batch, c in outputs],
            [_sizes(batch)[c] for batch, c in outputs],
            max(access.thread_count(self.models[i]) for i in members),
            [batch.importances for batch, _ in outputs],
        )
        # Every kernel value costs the same. Alone, a hypothesis would compute one per support and round.
        needed = np.array([_sizes(batch)[c].sum() for batch, c in outputs])
        share = needed / max(1, group.kernel_values - before[0])
        costs = group.seconds - before[2] + np.minimum(share, 1.0) * (group.kernel_seconds - before[1])
        np.add.at(self.seconds, [i for i in members for _ in hypotheses(self.models[i])], costs)

    @contextmanager
    def _timed(self, i: int) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[i] += time.perf_counter() - start

    def __getstate__(self) -> dict[str, object]:
        # The groups are found again: they are compiled objects over the hypotheses of this process.
        return {"models": self.models, "seconds": self.seconds, "_groups": [], "_alone": [], "_grouped": []}

    def _identities(self) -> list[int]:
        return [id(hypothesis) for model in self.models for hypothesis in hypotheses(model)]

    def _find_groups(self) -> None:
        """Group the models with the same kernel and the same type of rows."""
        groups: list[list[int]] = []
        self._alone = []
        for i, model in enumerate(self.models):
            first = hypotheses(model)[0]
            if first.n_outputs > 1 or not first.shares_rows:
                self._alone.append(i)
                continue
            for members in groups:
                if _can_share(first, hypotheses(self.models[members[0]])[0]):
                    members.append(i)
                    break
            else:
                groups.append([i])
        self._groups = [
            (LearnerGroup([one for i in members for one in hypotheses(self.models[i])]), members)
            for members in groups
        ]
        self._grouped = self._identities()


def _can_share(a: Learner, b: Learner) -> bool:
    same_rows = a.dtype == b.dtype and a.supports.sparse == b.supports.sparse
    return same_rows and bool(a.kernel.equals(b.kernel))


def _margins(batch: Batch) -> Floats:
    assert batch.margins is not None
    return batch.margins


def _sizes(batch: Batch) -> Ints:
    assert batch.sizes is not None
    return batch.sizes
