"""Divide the learners of a comparison among the jobs of joblib.

The stream is read in this process. Several blocks at a time are sent to the jobs, together with the learners,
and the learners come back. So every source of rows and every backend of joblib works.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from threading import current_thread, main_thread
from typing import Any, Self, TypeVar

from joblib import Parallel, delayed, effective_n_jobs

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._evaluation.comparison import Comparison
from budgetron._evaluation.regression_comparison import RegressionComparison
from budgetron._util.types import Labels, Rows

__all__ = ["Jobs", "groups_of"]

AnyComparison = Comparison | RegressionComparison
Model = TypeVar("Model")
# Rows, labels, and other features of the same rows for some learners.
Block = tuple[Rows, Labels, Mapping[str, Rows] | None]

# Rows that are sent at a time: so many that it costs little to send the learners as well.
ROWS_AT_A_TIME = 65_536


class Jobs:
    """The learners of a comparison, divided among the jobs of joblib.

    Parameters
    ----------
    whole : Comparison or RegressionComparison
        Before its first round. It has the results of all learners after each call of `learn` that returns
        True, and after `finish`.
    n_jobs : int or None
        As in joblib.
    """

    def __init__(self, whole: AnyComparison, n_jobs: int | None) -> None:
        learners: dict[str, Any] = {result.name: result.model for result in whole.results}
        jobs = min(effective_n_jobs(n_jobs), len(learners))
        self.whole = whole
        self._parts: list[Any] = [whole]  # all of the class of `whole`
        if jobs > 1:
            groups = groups_of(learners, jobs, whole.share and not whole.delay)
            self._parts = [whole.part(group) for group in groups]
        self._parallel = Parallel(n_jobs=n_jobs)
        self._collected: list[Block] = []

    def __enter__(self) -> Self:
        if len(self._parts) > 1:
            self._parallel.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if len(self._parts) > 1:
            self._parallel.__exit__(*error)

    def learn(self, X: Rows, y: Labels, own_rows: Mapping[str, Rows] | None = None) -> bool:
        """Learn a block, or collect it until there are enough rows; return whether all were learned.

        A single job learns every block at once.
        """
        if len(self._parts) == 1:
            self.whole.learn(X, y, own_rows)
            return True
        self._collected.append((X, y, own_rows))
        if sum(len(labels) for _, labels, _ in self._collected) < ROWS_AT_A_TIME:
            return False
        self._send()
        return True

    def finish(self) -> None:
        """Learn the rows that were collected, and those that still wait for their label."""
        if len(self._parts) == 1:
            self.whole.finish()
            return
        if self._collected:
            self._send()
        if self.whole.n_waiting:
            self._run(_finish)

    def _send(self) -> None:
        self._run(_learn, self._collected)
        self._collected = []

    def _run(self, function: Callable[..., AnyComparison], *arguments: object) -> None:
        tasks = (delayed(_in_job)(os.getpid(), function, part, *arguments) for part in self._parts)
        self._parts = list(self._parallel(tasks))
        self.whole.gather(self._parts)


def _in_job(caller: int, function: Callable[..., AnyComparison], *arguments: object) -> AnyComparison:
    # Ctrl-C on a terminal also reaches the processes of joblib. The calling process decides when to end.
    if os.getpid() != caller and current_thread() is main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*arguments)


def _learn(part: AnyComparison, blocks: list[Block]) -> AnyComparison:
    for X, y, own_rows in blocks:
        part.learn(X, y, own_rows)
    return part


def _finish(part: AnyComparison) -> AnyComparison:
    part.finish()
    return part


def groups_of(learners: Mapping[str, Model], jobs: int, share: bool) -> list[dict[str, Model]]:
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
