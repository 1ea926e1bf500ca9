"""What commands that learn do differently for classes and for numbers.

No other module of the command line distinguishes results of classifiers and of regressors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from rich.table import Table

from budgetron._evaluation.by_name import DEFAULTS, REGRESSION_DEFAULTS, Learners, scales_rows
from budgetron._evaluation.regression_result import error_text
from budgetron._evaluation.regressor import scale_of
from budgetron.cli._prefix import LabelArray, Prefix, Rows
from budgetron.cli._terminal import coverage_table, learners_table, rare_table, results_table
from budgetron.evaluate import Comparison, RegressionComparison, RegressionResult, Result

__all__ = ["AnyComparison", "AnyResult", "Task", "task_of"]

AnyComparison: TypeAlias = Comparison | RegressionComparison
AnyResult: TypeAlias = Result | RegressionResult


class Task(ABC):
    """What is predicted."""

    name: ClassVar[str]
    defaults: ClassVar[Sequence[str]]  # the learners of `compare`
    kernel_learner: ClassVar[str]  # of `tune`, and of `run` with options of kernels
    error_name: ClassVar[str]  # in JSON
    error_title: ClassVar[str]

    @abstractmethod
    def check_options(self, class_weight: str | None, average: bool = False) -> None:
        """Raise `ValueError` if an option was given that is not for this task."""

    @abstractmethod
    def prepare(self, blocks: Prefix, models: Learners, scale: bool) -> None:
        """Decide how learners get the targets of new rows; `scale` is the option of this name."""

    @abstractmethod
    def comparison(self, models: Learners, blocks: Prefix, window: int, delay: int) -> AnyComparison:
        """Return a comparison of the learners before its first round."""

    @abstractmethod
    def traced(self, model: Any, X: Rows, y: LabelArray, blocks: Prefix) -> tuple[Any, LabelArray]:
        """Learn rows, and return the trace with its ledger, and the targets as the model got them."""

    @abstractmethod
    def figures(self, best: Any, wide: bool) -> str:
        """Return the error of a result, for the progress line."""

    @abstractmethod
    def tables(self, results: Sequence[Any], title: str) -> list[Table]:
        """Return the tables of results."""

    @abstractmethod
    def error(self, result: Any, weights: Mapping[object, float]) -> float:
        """Return the error of a result; classes may have weights."""

    @abstractmethod
    def baseline(self, result: Any, weights: Mapping[object, float]) -> tuple[float, str]:
        """Return the error of the best simple prediction, and what it predicts."""

    @abstractmethod
    def cell(self, error: float) -> str:
        """Return an error for a cell of a table."""

    @abstractmethod
    def words(self, error: float) -> str:
        """Return an error in words."""


class Classification(Task):
    """The targets are classes."""

    name = "classification"
    defaults = DEFAULTS
    kernel_learner = "forgetron"
    error_name = "error_rate"
    error_title = "error %"

    def check_options(self, class_weight: str | None, average: bool = False) -> None:
        """All options are for classes."""

    def prepare(self, blocks: Prefix, models: Learners, scale: bool) -> None:
        """Learners get classes as they are."""

    def comparison(self, models: Learners, blocks: Prefix, window: int, delay: int) -> AnyComparison:
        assert blocks.classes is not None
        names = blocks.stream.feature_names
        return Comparison(models, blocks.classes, window=window, delay=delay, feature_names=names)

    def traced(self, model: Any, X: Rows, y: LabelArray, blocks: Prefix) -> tuple[Any, LabelArray]:
        return model.progressive_fit(X, y, classes=blocks.classes, ledger=True), y

    def figures(self, best: Any, wide: bool) -> str:
        recent = f" ({100 * best.window_error:.1f} recently)" if wide else ""
        return f"{100 * best.error_rate:.2f} % error{recent}"

    def tables(self, results: Sequence[Any], title: str) -> list[Table]:
        more = (rare_table(results), coverage_table(results))
        return [results_table(results, title), *(table for table in more if table is not None)]

    def error(self, result: Any, weights: Mapping[object, float]) -> float:
        """Return the error rate, in which each round has the weight of its class; 1 if it has none."""
        if not weights:
            return float(result.error_rate)
        of_class = np.array([weights.get(label, 1.0) for label in result.classes.tolist()])
        rounds = result.confusion.sum(axis=1)
        right = np.diag(result.confusion)
        return float(of_class @ (rounds - right) / max(of_class @ rounds, 1e-300))

    def baseline(self, result: Any, weights: Mapping[object, float]) -> tuple[float, str]:
        labels = result.classes.tolist()
        rounds = result.confusion.sum(axis=1) * [weights.get(label, 1.0) for label in labels]
        most = int(rounds.argmax())
        return 1.0 - float(rounds[most] / max(rounds.sum(), 1e-300)), f"always predicting {labels[most]}"

    def cell(self, error: float) -> str:
        return f"{100 * error:.2f}"

    def words(self, error: float) -> str:
        return f"{100 * error:.2f} % error"


class Regression(Task):
    """The targets are numbers. Learners that do not scale targets get scaled ones."""

    name = "regression"
    defaults = REGRESSION_DEFAULTS
    kernel_learner = "secondorder"
    error_name = "rmse"
    error_title = "RMSE"

    def check_options(self, class_weight: str | None, average: bool = False) -> None:
        given = {"--average": average, "--class-weight": class_weight is not None}
        for option, is_given in given.items():
            if is_given:
                raise ValueError(f"{option} is for classes, but the target has numbers; leave it out")

    def prepare(self, blocks: Prefix, models: Learners, scale: bool) -> None:
        if scale and not all(map(scales_rows, models.values())):
            blocks.target_scale = scale_of(blocks.first.y)

    def comparison(self, models: Learners, blocks: Prefix, window: int, delay: int) -> AnyComparison:
        scale = blocks.target_scale
        scaled = {} if scale is None else {n: scale for n, model in models.items() if not scales_rows(model)}
        names = blocks.stream.feature_names
        return RegressionComparison(
            models, window=window, delay=delay, feature_names=names, target_scales=scaled
        )

    def traced(self, model: Any, X: Rows, y: LabelArray, blocks: Prefix) -> tuple[Any, LabelArray]:
        scale = blocks.target_scale
        targets = y if scale is None or scales_rows(model) else scale.to_learner(y)
        return model.progressive_fit(X, targets, ledger=True), targets

    def figures(self, best: Any, wide: bool) -> str:
        recent = f" ({error_text(best.window_rmse)} recently)" if wide else ""
        return f"RMSE {error_text(best.rmse)}{recent}"

    def tables(self, results: Sequence[Any], title: str) -> list[Table]:
        coverage = coverage_table(results)
        return [_regression_table(results, title), *([] if coverage is None else [coverage])]

    def error(self, result: Any, weights: Mapping[object, float]) -> float:
        return float(result.rmse)

    def baseline(self, result: Any, weights: Mapping[object, float]) -> tuple[float, str]:
        words = {"mean": "predicting the mean so far", "last": "predicting the last target"}
        name, error = min(result.baselines.items(), key=lambda item: item[1])
        return error, words[name]

    def cell(self, error: float) -> str:
        return error_text(error)

    def words(self, error: float) -> str:
        return f"RMSE {error_text(error)}"


_TASKS: dict[str, Task] = {task.name: task for task in (Classification(), Regression())}


def task_of(name: str) -> Task:
    """Return a task by its name."""
    return _TASKS[name]


def _regression_table(results: Sequence[RegressionResult], title: str) -> Table:
    """Return a table of the regressors, the best first; the title has the errors of the baselines."""
    baselines = results[0].baselines
    mean, last = (error_text(baselines[name]) for name in ("mean", "last"))
    title += f"; the mean so far has RMSE {mean}, the last target {last}"
    worse = [result.name for result in results if result.rmse > min(baselines.values())]
    notes = ["! is worse than predicting the mean so far, or the last target."] if worse else []
    levels = sorted({result.level for result in results if result.coverage is not None and result.level})
    wanted = ", ".join(f"{100 * level:g} %" for level in levels)
    notes += [f"cov.: the share of the targets in their intervals, which aim at {wanted}."] if wanted else []
    recent = f"last\n{results[0].window:,}"
    columns = {
        "\nRMSE": lambda r: f"{'! ' if r.name in worse else ''}{error_text(r.rmse)}",
        recent: lambda r: error_text(r.window_rmse),
        "\nMAE": lambda r: error_text(r.mae),
        "cov.\n%": lambda r: "-" if r.coverage is None else f"{100 * r.coverage:.1f}",
    }
    ordered = sorted(results, key=lambda result: result.loss)
    return learners_table(ordered, title, columns, notes, name_width=20)
