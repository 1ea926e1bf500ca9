"""Regressors that run over one stream, block by block, and the result of each."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from budgetron._base.access import start_regressor
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._evaluation.base_comparison import BaseComparison
from budgetron._evaluation.comparison import checked_learners
from budgetron._evaluation.names import Learners
from budgetron._evaluation.regression_plots import comparison as comparison_plot
from budgetron._evaluation.regression_result import RegressionResult
from budgetron._evaluation.regressor import (
    TargetScale,
    TargetScales,
    is_regressor,
    learn_row,
    play_block,
    play_delayed,
)
from budgetron._util.types import Floats, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RegressionComparison"]

UNCHANGED = TargetScale(0.0, 1.0)


class RegressionComparison(BaseComparison[RegressionResult]):
    """Regressors that run over one stream, block by block, and the result of each.

    Parameters
    ----------
    learners : mapping of names to regressors, or sequence of regressors
        They learn in place; `compare` passes clones.
    window : int, default=1000
        Number of recent rounds in `window_rmse`.
    delay : int, default=0
        The target of round t arrives after the prediction of round t + delay, and is learned then.
    feature_names : sequence of str, optional
        The names of the features, for reports.
    target_scales : mapping of names to TargetScale, optional
        These learners learn centered and scaled targets. All results are in the unit of the targets.

    Attributes
    ----------
    results : list of RegressionResult
    """

    def __init__(
        self,
        learners: Learners,
        *,
        window: int = 1000,
        delay: int = 0,
        feature_names: Sequence[str] | None = None,
        target_scales: TargetScales | None = None,
    ) -> None:
        results = []
        for name, learner in checked_learners(learners).items():
            if not is_regressor(learner):
                raise TypeError(
                    f"learners must be all regressors, or all classifiers; {name} is no regressor"
                )
            results.append(RegressionResult(name, learner, window, delay))
        super().__init__(results, window=window, delay=delay, share=False, feature_names=feature_names)
        self._scales = dict(target_scales or {})

    def start(self, X: Rows, y: ArrayLike) -> None:
        for result in self.results:
            if isinstance(result.model, OnlineRegressor):
                start_regressor(result.model, X, self._scale(result).to_learner(_numbers(y)))

    def part(self, learners: Mapping[str, Any]) -> RegressionComparison:
        return RegressionComparison(
            dict(learners),
            window=self.window,
            delay=self.delay,
            target_scales=self._scales,
        )

    def _learn(self, X: Rows, y: ArrayLike, own_rows: Mapping[str, Rows] | None) -> None:
        targets = _numbers(y)
        for result in self.results:
            start = time.perf_counter()
            rows = X if own_rows is None else own_rows.get(result.name, X)
            scale = self._scale(result)
            scaled = scale.to_learner(targets)
            if self.delay:
                waiting = self._waiting[result.name]
                played = play_delayed(result.model, rows, scaled, waiting, self.delay)
            else:
                played = play_block(result.model, rows, scaled)
            result.record(targets, played.converted(scale), time.perf_counter() - start)

    def _learn_row(self, result: RegressionResult, row: Rows, target: Any) -> None:
        learn_row(result.model, row, target)  # waiting rows have scaled targets

    def _scale(self, result: RegressionResult) -> TargetScale:
        return self._scales.get(result.name, UNCHANGED)

    # ------------------------------------------------------------------ results

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot errors and residuals over rounds, and errors over time and memory.

        The plot is saved at `path` if given. The figure is returned; notebooks show it.
        """
        figure = comparison_plot(self.results)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def __repr__(self) -> str:
        best = self.best()
        learners = f"{len(self.results)} learners, {best.rounds} rounds"
        return f"RegressionComparison({learners}, best {best.name} RMSE {best.rmse:.4g})"

    def _errors(self, result: RegressionResult) -> dict[str, str]:
        return {
            "RMSE": f"{result.rmse:.4g}",
            f"last {result.window:,}": f"{result.window_rmse:.4g}",
            "MAE": f"{result.mae:.4g}",
            "coverage": "-" if result.coverage is None else f"{result.coverage:.2%}",
        }


def _numbers(y: ArrayLike) -> Floats:
    """Return targets as numbers."""
    targets = np.asarray(y)
    if targets.dtype.kind not in "fiub" and not all(isinstance(v, int | float) for v in targets.tolist()):
        raise ValueError("the targets of regressors must be numbers")
    return targets.astype(np.float64)
