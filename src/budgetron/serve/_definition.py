"""Make models: from a file, from rows like those to come, or from a description of the columns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from budgetron._base.access import bytes_needed, check_parameters
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._evaluation.by_name import Learner, learners_of, only_numbers, scales_rows, with_memory
from budgetron._evaluation.regressor import is_regressor, scale_of
from budgetron._persistence.archive import load_with_extras
from budgetron._util.memory import available_bytes
from budgetron._util.units import format_bytes
from budgetron.conformal import ConformalClassifier, ConformalRegressor
from budgetron.kernels import resolve_gamma
from budgetron.serve._model import ServedModel
from budgetron.serve._tasks import Classification, Regression, Task, task_of
from budgetron.streams import Encoder, Stream
from budgetron.streams._base import MAX_CLASSES
from budgetron.streams._columns import Column
from budgetron.streams._running import Running

__all__ = ["KINDS", "from_columns", "from_file", "like_stream"]

# The kinds of columns in a description, and what they become. Categories without levels and words are hashed.
KINDS = {
    "number": Column("", "number"),
    "category": Column("", "hash", width=64),
    "text": Column("", "words", width=128),
    "time": Column("", "time", form="year-month-day", parts=("days", "hour", "weekday")),
}
MAX_DECLARED_COLUMNS = 10_000
MAX_LEVELS = 1000
DEFAULT_BUDGET = 200
# Learning may need a copy of the model.
COPIES = 2


def from_file(path: Path) -> ServedModel:
    """Return the model of a file that `budgetron run --save`, `budgetron.save` or the service wrote.

    Columns of a file of `budgetron.save` are called as in the data frame that the model learned, or x1, x2...
    """
    model, extras = load_with_extras(path)
    extras = extras or {}
    task = _task_of_file(path, model, extras)
    if not task.is_fitted(model):
        _seed(model)
    if extras.get("encoder") is not None:
        return ServedModel(_uid(), model, Encoder.from_state(extras["encoder"]), task, extras.get("target"))
    if not task.is_fitted(model):
        raise ValueError(f"{path}: the model has not learned anything; learn with it first")
    if extras:
        raise ValueError(
            f"{path}: the model learned LIBSVM rows, which have no columns; serve one of a table"
        )
    found = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(1, model.n_features_in_ + 1)] if found is None else list(found)
    encoder = _encoder_of([Column(name, "number") for name in names], scale=False)
    return ServedModel(_uid(), model, encoder, task)


def _task_of_file(path: Path, model: Any, extras: dict[str, Any]) -> Task:
    """Return the task of the model of a file."""
    if isinstance(model, OnlineRegressor) or extras.get("serve"):
        try:
            return task_of(extras)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: the file does not say what the model predicts: {error}") from error
    if is_regressor(model):
        raise ValueError(f"{path}: {type(model).__name__} cannot be served; serve a regressor of Budgetron")
    classes = getattr(model, "classes_", None)
    if classes is None:
        raise ValueError(
            f"{path}: this model cannot predict rows of a table; use it in Python (budgetron.load)"
        )
    return Classification(classes.tolist())


def like_stream(learner: Learner, stream: Stream, coverage: float | None = None) -> ServedModel:
    """Return a new model for rows like those of a stream. The rows of the stream are not learned.

    With `coverage`, it also predicts sets of classes, or intervals; see `from_columns`.
    """
    encoder = stream.encoder
    if encoder is None or (stream.classes is None and stream.task == "classification"):
        raise ValueError(f"{stream.name}: the service needs a table with a target column")
    scale_targets = encoder.scale and not scales_rows(learner)
    if scales_rows(learner) and only_numbers(encoder):
        encoder.scale = False
    X, y = next(iter(stream))
    model = clone(learner)
    if model.get_params(deep=False).get("gamma") == "scale":
        model.set_params(gamma=float(f"{resolve_gamma('scale', X):.4g}"))
    task: Task
    if stream.classes is not None:
        task = Classification(stream.classes.tolist())
    else:
        assert y is not None
        task = Regression(stream.targets, scale_of(y) if scale_targets else None)
    return _new(_covering(model, coverage), Encoder.from_state(encoder.state()).reset(), task, stream.target)


def from_columns(
    learner: str,
    memory: str | None,
    columns: Mapping[str, str | Sequence[str]],
    classes: Sequence[Any] | None,
    coverage: float | None = None,
) -> ServedModel:
    """Return a new model for columns of these kinds; a sequence lists the levels of a category.

    Without classes, labels are numbers. With `coverage`, the model also predicts sets of classes, or
    intervals, that contain the label in this share of the rows.
    """
    if not columns:
        raise ValueError("columns: at least one column is needed")
    if len(columns) > MAX_DECLARED_COLUMNS:
        raise ValueError(f"columns: at most {MAX_DECLARED_COLUMNS:,} columns can be described")
    task: Task = Regression()
    if classes is not None:
        if len(set(map(str, classes))) != len(classes) or not 2 <= len(classes) <= MAX_CLASSES:
            raise ValueError(f"classes: give from 2 to {MAX_CLASSES:,} different labels")
        task = Classification(list(classes))
    spec = with_memory(learner, memory)
    if memory is not None and spec == learner:
        raise ValueError('memory: only the learner "budget" has this limit; others have a budget of supports')
    (model,) = learners_of([spec], [DEFAULT_BUDGET], ["auto"], 0, task.name)
    described = [_column(name, kind) for name, kind in columns.items()]
    encoder = _encoder_of(described, scale=True)
    if scales_rows(model) and only_numbers(encoder):
        encoder.scale = False
    return _new(_covering(model, coverage), encoder, task)


def _covering(model: Learner, coverage: float | None) -> Learner:
    """Return a learner, with sets or intervals of a coverage if one is given."""
    if coverage is None:
        return model
    return (ConformalRegressor if is_regressor(model) else ConformalClassifier)(model, coverage)


def _new(model: Learner, encoder: Encoder, task: Task, target: str | None = None) -> ServedModel:
    _check(model, encoder.n_features, 0 if task.classes is None else len(task.classes))
    if broken := [label for label in task.classes or [] if isinstance(label, float) and label % 1]:
        raise ValueError(
            f"classes: {broken[0]} is not a whole number; give such labels as text, or predict numbers"
        )
    _seed(model)
    return ServedModel(_uid(), model, encoder, task, target)


def _seed(model: Any) -> None:
    """Choose seeds that are not given, so that a replay of the log draws the same random numbers."""
    unseeded = [
        name
        for name, value in model.get_params(deep=True).items()
        if name.rpartition("__")[2] == "random_state" and value is None
    ]
    model.set_params(**{name: secrets.randbits(31) for name in unseeded})


def _uid() -> str:
    return secrets.token_hex(5)


def _column(name: str, kind: str | Sequence[str]) -> Column:
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(
                f'columns: "{name}" is {kind!r}; the kinds are {", ".join(KINDS)}, or a list of levels'
            )
        return replace(KINDS[kind], name=name)
    levels = sorted({str(level) for level in kind})
    if not 1 <= len(levels) <= MAX_LEVELS:
        raise ValueError(f'columns: "{name}" has {len(levels):,} levels; give from 1 to {MAX_LEVELS:,}')
    return Column(name, "onehot", levels=tuple(levels), missing=True)


def _encoder_of(columns: Sequence[Column], scale: bool) -> Encoder:
    """Return an encoder for these columns, which has not seen a row."""
    running = Running(sum(column.has_number for column in columns)).state()
    state = Encoder(scale=scale).state() | {"columns": [column.state() for column in columns]}
    return Encoder.from_state(state | {"running": running})


def _check(model: Learner, n_features: int, n_classes: int) -> None:
    """Raise `ValueError` if the parameters are invalid, or if the model would not fit in memory."""
    check_parameters(model)
    if not isinstance(model, OnlineClassifier | OnlineRegressor):
        return
    needed = COPIES * bytes_needed(model, np.zeros((1, n_features)), n_classes)
    left = available_bytes()
    if left is not None and needed > left:
        of_classes = f" and {n_classes} classes" if n_classes else ""
        raise ValueError(
            f"learning rows of {n_features:,} features{of_classes} needs about "
            f"{format_bytes(needed)}, and {format_bytes(left)} are available; give a smaller budget or memory"
        )
