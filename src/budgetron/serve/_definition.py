"""Make models: from a file, from rows like those to come, or from a description of the columns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor

from budgetron._base.access import bytes_needed, check_parameters
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._evaluation.by_name import Learner, learners_of, only_numbers, scales_rows, with_memory
from budgetron._persistence.archive import load_with_extras
from budgetron._util.memory import available_bytes
from budgetron._util.units import format_bytes
from budgetron.conformal import ConformalClassifier
from budgetron.kernels import resolve_gamma
from budgetron.serve._model import ServedModel
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
    if is_regressor(model):
        raise ValueError(f"{path}: {type(model).__name__} predicts numbers; the service serves classifiers")
    classes = getattr(model, "classes_", None)
    extras = extras or {}
    if extras.get("encoder") is not None:
        encoder = Encoder.from_state(extras["encoder"])
        if classes is None and extras.get("serve"):
            classes = np.array(extras["serve"]["classes"])
    elif classes is None:
        raise ValueError(
            f"{path}: this model cannot predict rows of a table; use it in Python (budgetron.load)"
        )
    elif extras:
        raise ValueError(
            f"{path}: the model learned LIBSVM rows, which have no columns; serve one of a table"
        )
    else:
        found = getattr(model, "feature_names_in_", None)
        d = int(model.n_features_in_)
        names = [f"x{i}" for i in range(1, d + 1)] if found is None else list(found)
        encoder = _encoder_of([Column(name, "number") for name in names], scale=False)
    if classes is None:
        raise ValueError(f"{path}: the model has no classes; learn with it first")
    return ServedModel(_uid(), model, encoder, classes.tolist(), extras.get("target"))


def like_stream(learner: Learner, stream: Stream, coverage: float | None = None) -> ServedModel:
    """Return a new model for rows like those of a stream. The rows of the stream are not learned.

    With `coverage`, it also predicts sets of classes; see `from_columns`.
    """
    encoder = stream.encoder
    if encoder is None or stream.classes is None:
        raise ValueError(f"{stream.name}: the service needs a table with a target column")
    if scales_rows(learner) and only_numbers(encoder):
        encoder.scale = False
    X, _ = next(iter(stream))
    model = clone(learner)
    if model.get_params(deep=False).get("gamma") == "scale":
        model.set_params(gamma=float(f"{resolve_gamma('scale', X):.4g}"))
    model = model if coverage is None else ConformalClassifier(model, coverage)
    fresh = Encoder.from_state(encoder.state()).reset()
    _check(model, fresh.n_features, len(stream.classes))
    return ServedModel(_uid(), model, fresh, stream.classes.tolist(), stream.target)


def from_columns(
    learner: str,
    memory: str | None,
    columns: Mapping[str, str | Sequence[str]],
    classes: Sequence[Any],
    coverage: float | None = None,
) -> ServedModel:
    """Return a new model for columns of these kinds; a sequence lists the levels of a category.

    With `coverage`, the model also predicts sets of classes that contain the label in this share of the rows.
    """
    if not columns:
        raise ValueError("columns: at least one column is needed")
    if len(columns) > MAX_DECLARED_COLUMNS:
        raise ValueError(f"columns: at most {MAX_DECLARED_COLUMNS:,} columns can be described")
    if len(set(map(str, classes))) != len(classes) or not 2 <= len(classes) <= MAX_CLASSES:
        raise ValueError(f"classes: give from 2 to {MAX_CLASSES:,} different labels")
    (model,) = learners_of([with_memory(learner, memory)], [DEFAULT_BUDGET], ["auto"], 0)
    described = [_column(name, kind) for name, kind in columns.items()]
    encoder = _encoder_of(described, scale=True)
    if scales_rows(model) and only_numbers(encoder):
        encoder.scale = False
    if coverage is not None:
        model = ConformalClassifier(model, coverage)
    _check(model, encoder.n_features, len(classes))
    return ServedModel(_uid(), model, encoder, list(classes))


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
    if not isinstance(model, OnlineClassifier):
        return
    needed = COPIES * bytes_needed(model, np.zeros((1, n_features)), n_classes)
    left = available_bytes()
    if left is not None and needed > left:
        raise ValueError(
            f"learning rows of {n_features:,} features and {n_classes} classes needs about "
            f"{format_bytes(needed)}, and {format_bytes(left)} are available; give a smaller budget or memory"
        )
