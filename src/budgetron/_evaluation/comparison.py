"""Classifiers that run over one stream, block by block, and the result of each."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from budgetron._base.access import open_batch
from budgetron._base.batches import check_classes, encode, label_array
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._evaluation.base_comparison import BaseComparison
from budgetron._evaluation.classifier import Classifier, Estimator, traces_its_predictions
from budgetron._evaluation.cohort import Cohort
from budgetron._evaluation.names import Learners, named_learners
from budgetron._evaluation.players import learn_row, play_block, play_delayed, traced
from budgetron._evaluation.plots import comparison as comparison_plot
from budgetron._evaluation.result import Result
from budgetron._util.types import Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "checked_learners"]


class Comparison(BaseComparison[Result]):
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
        named = checked_learners(learners)
        self.classes = check_classes(self, classes)
        results = [Result(name, learner, self.classes, window) for name, learner in named.items()]
        super().__init__(results, window=window, delay=delay, share=share, feature_names=feature_names)
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

    def start(self, X: Rows, y: ArrayLike) -> None:
        for result in self.results:
            if isinstance(result.model, OnlineClassifier):
                open_batch(result.model, X, np.asarray(y), self.classes)

    def part(self, learners: Mapping[str, Estimator]) -> Comparison:
        return Comparison(
            dict(learners), self.classes, window=self.window, delay=self.delay, share=self.share
        )

    def gather(self, parts: Sequence[Comparison]) -> None:
        super().gather(parts)
        self._cohort, self._sharing = None, []  # these learners are not the ones that were shared here

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

    def _learn_row(self, result: Result, row: Rows, target: Any) -> None:
        learn_row(result.model, row, target, self.classes)

    # ------------------------------------------------------------------ results

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

    def _errors(self, result: Result) -> dict[str, str]:
        return {
            "error": f"{result.error_rate:.2%}",
            f"last {result.window:,}": f"{result.window_error:.2%}",
            "balanced accuracy": f"{result.balanced_accuracy:.2%}",
        }


def checked_learners(learners: Learners) -> dict[str, Estimator]:
    """Return learners by name; raise an error if they cannot be compared."""
    named = named_learners(learners)
    if not named:
        raise ValueError("learners must hold at least one learner")
    if len(set(map(id, named.values()))) < len(named):
        raise ValueError("duplicate learner: the same object was given twice; pass a clone")
    for learner in named.values():
        if not isinstance(learner, Classifier):
            raise TypeError(f"a learner must have partial_fit and predict; got {learner!r}")
    return named
