"""What comparisons of classifiers and of regressors have in common."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar

from numpy.typing import ArrayLike

from budgetron._base.large_values import LargeValueError
from budgetron._evaluation.delayed import DelayedRows, PackedRows
from budgetron._evaluation.regression_result import RegressionResult
from budgetron._evaluation.result import Result
from budgetron._util.html import html_table
from budgetron._util.threads import one_thread
from budgetron._util.types import Rows
from budgetron._util.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["BaseComparison", "R"]

R = TypeVar("R", bound=Result | RegressionResult)


class ComparisonState(TypedDict):
    """Everything but the models, as `budgetron.save` stores it in a checkpoint."""

    results: dict[str, Any]
    waiting: dict[str, PackedRows]


class BaseComparison(ABC, Generic[R]):
    """Learners that run over one stream, block by block, and the result of each.

    A subclass defines what a result is, and how learners play rounds.

    Parameters
    ----------
    results : list of Result or RegressionResult
        Without a round so far.
    window, delay, share, feature_names
        See `Comparison`.
    """

    def __init__(
        self,
        results: list[R],
        *,
        window: int,
        delay: int,
        share: bool,
        feature_names: Sequence[str] | None,
    ) -> None:
        for name, value, least in (("window", window, 1), ("delay", delay, 0)):
            if int(value) != value or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value}")
        self.results = results
        self.window, self.delay, self.share, self.feature_names = window, delay, share, feature_names
        self._waiting = {result.name: DelayedRows() for result in results}

    # ------------------------------------------------------------------ defined by subclasses

    @abstractmethod
    def start(self, X: Rows, y: ArrayLike) -> None:
        """Start every learner with a block that will be learned later, in parts.

        What depends on the first block (``gamma="scale"``) then depends on the whole block.
        """

    @abstractmethod
    def part(self, learners: Mapping[str, Any]) -> Self:
        """Return a comparison of some of these learners, before their first round, with the same settings."""

    @abstractmethod
    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the results; save the plot at `path` if given. Notebooks show the returned figure."""

    @abstractmethod
    def _learn(self, X: Rows, y: ArrayLike, own_rows: Mapping[str, Rows] | None) -> None:
        """Play the rounds of a block with every learner."""

    @abstractmethod
    def _learn_row(self, result: R, row: Rows, target: Any) -> None:
        """Learn one row of shape (1, n_features) that was predicted before."""

    @abstractmethod
    def _errors(self, result: R) -> dict[str, str]:
        """Return the errors of a learner as text, by the heading of their column."""

    # ------------------------------------------------------------------ rounds

    @property
    def n_waiting(self) -> int:
        """Number of rows that were predicted but not learned yet, over all learners."""
        return sum(map(len, self._waiting.values()))

    def state(self) -> ComparisonState:
        """Return everything but the models: the results so far, and the rows that wait for their label."""
        waiting = {name: rows.packed() for name, rows in self._waiting.items() if rows}
        return {"results": {result.name: result.state() for result in self.results}, "waiting": waiting}

    def resume(self, state: ComparisonState) -> None:
        """Continue from the `state` of another comparison, whose models are the learners of this one."""
        for result in self.results:
            result.restore(state["results"][result.name])
        for name, packed in state["waiting"].items():
            self._waiting[name] = DelayedRows(packed)

    def gather(self, parts: Sequence[Self]) -> None:
        """Take the results of comparisons that each have some of the learners of this one."""
        found = {result.name: result for part in parts for result in part.results}
        self.results = [found[result.name] for result in self.results]
        self._waiting = {name: rows for part in parts for name, rows in part._waiting.items()}

    def learn(self, X: Rows, y: ArrayLike, own_rows: Mapping[str, Rows] | None = None) -> None:
        """Play the rounds of a block with every learner: predict, then learn.

        `own_rows` has, by name, other features of the same rows for learners that do not take `X`. Kernel
        learners that share their kernel take `X`.
        """
        before = self.results[0].rounds
        try:
            self._learn(X, y, own_rows)
        except LargeValueError as error:
            raise error.at(after=before) from None  # the number of the row in the stream

    def finish(self) -> None:
        """Learn the rows that still wait for their label."""
        for result in self.results:
            waiting = self._waiting[result.name]
            if not waiting:
                continue
            start = time.perf_counter()
            with one_thread():
                while waiting:
                    self._learn_row(result, *waiting.next())
            result.record_rest(time.perf_counter() - start)

    # ------------------------------------------------------------------ results

    def __iter__(self) -> Iterator[R]:
        return iter(self.results)

    def __getitem__(self, name: str | int) -> R:
        if isinstance(name, int):
            return self.results[name]
        return next(result for result in self.results if result.name == name)

    def best(self) -> R:
        """Return the result with the fewest mistakes, or for regressors, with the smallest RMSE."""
        return min(self.results, key=lambda result: result.loss)

    def efficient(self) -> list[R]:
        """Return the results that no other beats in mistakes, time and memory at once, fastest first.

        Every other learner makes at least as many mistakes as one of these, takes at least as long, and needs
        at least as much memory. For regressors, the RMSE takes the place of mistakes. Learners of unknown
        size are compared by mistakes and time.
        """
        kept = [result for result in self.results if not any(_beats(other, result) for other in self.results)]
        return sorted(kept, key=lambda result: result.seconds)

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with one row per learner."""
        pandas = _import_pandas()
        return pandas.DataFrame([result.summary() for result in self.results]).set_index("learner")

    def curves(self) -> pd.DataFrame:
        """Return a pandas DataFrame with the points of all curves, one row per learner and round."""
        pandas = _import_pandas()
        frames = [pandas.DataFrame(result.curve).assign(learner=result.name) for result in self.results]
        return pandas.concat(frames, ignore_index=True)

    def to_json(self, **options: Any) -> str:
        """Return everything but the models as JSON; `options` are those of `json.dumps`."""
        return json.dumps({"results": [result.to_dict() for result in self.results]}, **options)

    def _repr_html_(self) -> str:
        results = sorted(self.results, key=lambda result: result.loss)
        if not results[0].rounds:
            return html_table("No rounds yet", [(result.name,) for result in results])
        head = ("learner", *self._errors(results[0]), "supports", "memory", "\u00b5s per round")
        efficient = {result.name for result in self.efficient()}
        rows = [
            (
                result.name + (" *" if result.name in efficient else ""),
                *self._errors(result).values(),
                f"{result.supports:,}" if result.supports else "-",
                format_bytes(result.nbytes) if result.nbytes else "-",
                f"{1e6 * result.seconds / result.rounds:,.3g}",
            )
            for result in results
        ]
        note = "* no other learner beats it in error, time and memory at once"
        return html_table(f"{results[0].rounds:,} rounds", rows, head, note=note)


def _beats(one: R, other: R) -> bool:
    """Return whether one result is at least as good in all respects, and better in one."""
    sizes = (one.nbytes, other.nbytes) if one.nbytes and other.nbytes else (0, 0)
    pairs = [(one.loss, other.loss), (one.seconds, other.seconds), sizes]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("data frames need pandas: pip install pandas") from None
    return pandas
