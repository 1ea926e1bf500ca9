"""Divide the learners of a comparison among the jobs of joblib.

The stream is read in this process. Several blocks at a time are sent to the jobs, together with the learners,
and the learners come back. So every source of rows and every backend of joblib works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from joblib import Parallel, delayed

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._evaluation.classifier import Estimator
from budgetron._evaluation.comparison import Comparison
from budgetron._evaluation.progress import Progress
from budgetron._util.types import Labels, Rows

__all__ = ["Watch", "groups_of", "run_in_parallel"]

Watch = Callable[[Comparison], object]
Blocks = list[tuple[Rows, Labels]]

# Rows that are sent at a time: so many that it costs little to send the learners as well.
ROWS_AT_A_TIME = 65_536


def run_in_parallel(
    whole: Comparison,
    parts: list[Comparison],
    blocks: Iterable[tuple[Rows, Labels]],
    watch: Watch | None,
    progress: Progress | None,
    n_jobs: int | None,
) -> Comparison:
    """Learn the blocks with each part in a job of its own, and gather the results in `whole`."""
    with Parallel(n_jobs=n_jobs) as jobs:
        for some in _several(blocks):
            parts = list(jobs(delayed(_learn)(part, some) for part in parts))
            whole.gather(parts)
            if progress is not None:
                progress.show(whole.results)
            if watch is not None:
                watch(whole)
        if whole.n_waiting:
            parts = list(jobs(delayed(_finish)(part) for part in parts))
            whole.gather(parts)
    if progress is not None:
        progress.show(whole.results, last=True)
    return whole


def _learn(part: Comparison, blocks: Blocks) -> Comparison:
    for X, y in blocks:
        part.learn(X, y)
    return part


def _finish(part: Comparison) -> Comparison:
    part.finish()
    return part


def _several(blocks: Iterable[tuple[Rows, Labels]]) -> Iterator[Blocks]:
    """Yield lists of blocks with enough rows together."""
    some: Blocks = []
    rows = 0
    for X, y in blocks:
        some.append((X, y))
        rows += len(y)
        if rows >= ROWS_AT_A_TIME:
            yield some
            some, rows = [], 0
    if some:
        yield some


def groups_of(learners: Mapping[str, Estimator], jobs: int, share: bool) -> list[dict[str, Estimator]]:
    """Divide named learners into groups of about equal size, one for each job.

    If learners share kernel values, those with the same kernel are in one group, as far as there are enough
    groups then.
    """
    units: dict[str, list[str]] = {}
    for name, learner in learners.items():
        key = _kernel_of(learner) if share and isinstance(learner, KernelClassifier) else f"alone {name}"
        units.setdefault(key, []).append(name)
    pieces = list(units.values())
    while len(pieces) < jobs:
        largest = max(pieces, key=len)
        pieces.remove(largest)
        pieces += [largest[: len(largest) // 2], largest[len(largest) // 2 :]]
    groups: list[list[str]] = [[] for _ in range(jobs)]
    for piece in sorted(pieces, key=len, reverse=True):
        min(groups, key=len).extend(piece)
    return [{name: learners[name] for name in group} for group in groups]


def _kernel_of(learner: KernelClassifier) -> str:
    """Return a text that is the same for learners with the same kernel."""
    return repr((learner.kernel, learner.gamma, learner.degree, learner.coef0))
