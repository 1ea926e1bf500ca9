"""Learners that run over one stream, block by block, and the result of each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from budgetron._base.access import open_batch
from budgetron._base.batches import check_classes, encode, label_array
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.large_values import LargeValueError
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._evaluation.classifier import Classifier, Estimator, traces_its_predictions
from budgetron._evaluation.cohort import Cohort
from budgetron._evaluation.delayed import DelayedRows, PackedRows
from budgetron._evaluation.names import Learners, named_learners
from budgetron._evaluation.players import learn_row, play_block, play_delayed, traced
from budgetron._evaluation.plots import comparison as comparison_plot
from budgetron._evaluation.result import Result, ResultState
from budgetron._util.html import html_table
from budgetron._util.threads import one_thread
from budgetron._util.types import Rows
from budgetron._util.units import format_bytes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Comparison"]


class ComparisonState(TypedDict):
    """Everything but the models, as `budgetron.save` stores it in a checkpoint."""

    results: dict[str, ResultState]
    waiting: dict[str, PackedRows]


class Comparison:
    """Learners that run over one stream, block by block, and the result of each.

    Parameters
    ----------
    learners : mapping of names to learners, or sequence of learners
        They learn in place; `compare` passes clones. Kernel learners with the same kernel share its values.
    classes : array-like
        All labels that will ever occur.
    window : int, default=1000
        Number of recent rounds in `window_error`.
    delay : int, default=0
        The label of round t arrives after the prediction of round t + delay, and is learned then.
    share : bool, default=True
        Whether learners with the same kernel compute its values once for all. Up to rounding, the results are
        the same: only the sign of a margin that is 0 up to rounding may differ.
    feature_names : sequence of str, optional
        The names of the features, for reports.

    Attributes
    ----------
    results : list of Result
    """

    def __init__(
        self,
        learners: Learners,
        classes: ArrayLike,
        *,
        window: int = 1000,
        delay: int = 0,
        share: bool = True,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        named = named_learners(learners)
        _check_learners(named)
        for name, value, least in (("window", window, 1), ("delay", delay, 0)):
            if int(value) != value or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value}")
        self.classes = check_classes(self, classes)
        self.window, self.delay, self.share, self.feature_names = window, delay, share, feature_names
        self.results = [Result(name, learner, self.classes, window) for name, learner in named.items()]
        self._waiting = {name: DelayedRows() for name in named}
        self._cohort: Cohort | None = None
        self._sharing: list[Result] = []
        if share and not delay:
            self._share_kernel_values()

    def _share_kernel_values(self) -> None:
        models = {
            result.name: result.model
            for result in self.results
            if isinstance(result.model, KernelClassifier) and traces_its_predictions(result.model)
        }
        if len(models) > 1:
            self._cohort = Cohort(list(models.values()))
            self._sharing = [result for result in self.results if result.name in models]

    @property
    def n_waiting(self) -> int:
        """Number of rows that were predicted but not learned yet, over all learners."""
        return sum(map(len, self._waiting.values()))

    def start(self, X: Rows, y: ArrayLike) -> None:
        """Start every learner with a block that will be learned later, in parts.

        What depends on the first block (``gamma="scale"``) then depends on the whole block.
        """
        for result in self.results:
            if isinstance(result.model, OnlineClassifier):
                open_batch(result.model, X, np.asarray(y), self.classes)

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

    def part(self, learners: Mapping[str, Estimator]) -> Comparison:
        """Return a comparison of some of these learners, before their first round, with the same settings."""
        return Comparison(
            dict(learners), self.classes, window=self.window, delay=self.delay, share=self.share
        )

    def gather(self, parts: Sequence[Comparison]) -> None:
        """Take the results of comparisons that each have some of the learners of this one."""
        found = {result.name: result for part in parts for result in part.results}
        self.results = [found[result.name] for result in self.results]
        self._waiting = {name: rows for part in parts for name, rows in part._waiting.items()}
        self._cohort, self._sharing = None, []  # these learners are not the ones that were shared here

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

    def _learn(self, X: Rows, y: ArrayLike, own_rows: Mapping[str, Rows] | None) -> None:
        labels = np.asarray(label_array(y))
        codes = encode(labels, self.classes)
        if self._cohort is not None:
            before = self._cohort.seconds.copy()
            traces = self._cohort.progressive_fit(X, labels, self.classes)
            spent = self._cohort.seconds - before
            for result, trace, seconds in zip(self._sharing, traces, spent, strict=True):
                result.record(codes, *traced(trace, codes), float(seconds))
        for result in self.results:
            if any(result is other for other in self._sharing):
                continue
            start = time.perf_counter()
            rows = X if own_rows is None else own_rows.get(result.name, X)
            if self.delay:
                waiting = self._waiting[result.name]
                played = play_delayed(result.model, rows, labels, self.classes, waiting, self.delay)
            else:
                played = play_block(result.model, rows, labels, self.classes)
            result.record(codes, *played, time.perf_counter() - start)

    def finish(self) -> None:
        """Learn the rows that still wait for their label."""
        for result in self.results:
            waiting = self._waiting[result.name]
            if not waiting:
                continue
            start = time.perf_counter()
            with one_thread():
                while waiting:
                    learn_row(result.model, *waiting.next(), self.classes)
            result.record_rest(time.perf_counter() - start)

    # ------------------------------------------------------------------ results

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __getitem__(self, name: str | int) -> Result:
        if isinstance(name, int):
            return self.results[name]
        return next(result for result in self.results if result.name == name)

    def best(self) -> Result:
        """Return the result with the fewest mistakes."""
        return min(self.results, key=lambda result: result.mistakes)

    def efficient(self) -> list[Result]:
        """Return the results that no other beats in mistakes, time and memory at once, fastest first.

        Every other learner makes at least as many mistakes as one of these, takes at least as long, and needs
        at least as much memory. Learners of unknown size are compared by mistakes and time.
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

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot error and supports over rounds, and error over time and memory.

        The plot is saved at `path` if given. The figure is returned; notebooks show it.
        """
        figure = comparison_plot(self.results)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def __repr__(self) -> str:
        best = self.best()
        learners = f"{len(self.results)} learners, {best.rounds} rounds"
        return f"Comparison({learners}, best {best.name} {best.error_rate:.4f})"

    def _repr_html_(self) -> str:
        results = sorted(self.results, key=lambda result: result.mistakes)
        if not results[0].rounds:
            return html_table("No rounds yet", [(result.name,) for result in results])
        window = results[0].window
        head = (
            "learner",
            "error",
            f"last {window:,}",
            "balanced accuracy",
            "supports",
            "memory",
            "\u00b5s per round",
        )
        efficient = {result.name for result in self.efficient()}
        rows = [
            (
                result.name + (" *" if result.name in efficient else ""),
                f"{result.error_rate:.2%}",
                f"{result.window_error:.2%}",
                f"{result.balanced_accuracy:.2%}",
                f"{result.supports:,}" if result.supports else "-",
                format_bytes(result.nbytes) if result.nbytes else "-",
                f"{1e6 * result.seconds / result.rounds:,.3g}",
            )
            for result in results
        ]
        note = "* no other learner beats it in mistakes, time and memory at once"
        return html_table(f"{results[0].rounds:,} rounds", rows, head, note=note)


def _beats(one: Result, other: Result) -> bool:
    """Return whether one result is at least as good in all respects, and better in one."""
    sizes = (one.nbytes, other.nbytes) if one.nbytes and other.nbytes else (0, 0)
    pairs = [(one.mistakes, other.mistakes), (one.seconds, other.seconds), sizes]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _check_learners(named: dict[str, Estimator]) -> None:
    if not named:
        raise ValueError("learners must hold at least one learner")
    if len(set(map(id, named.values()))) < len(named):
        raise ValueError("duplicate learner: the same object was given twice; pass a clone")
    for learner in named.values():
        if not isinstance(learner, Classifier):
            raise TypeError(f"a learner must have partial_fit and predict; got {learner!r}")


def _import_pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise ImportError("data frames need pandas: pip install pandas") from None
    return pandas
