"""ColumnTransformers of scikit-learn in model files: which step takes which columns.

A file stores the parameters, each step by itself, and the names of the columns. To read it, scikit-learn fits
a ColumnTransformer to a single row of zeros, so that its own attributes are those of the version in use. Then
the steps in it are replaced by those of the file.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from budgetron._util.checks import require, require_int, require_names
from budgetron._util.columns import column_numbers

__all__ = ["PARAMETERS", "is_column_transformer", "learned_columns", "make_columns", "parts_of"]

Columns: TypeAlias = str | int | list[str] | list[int] | list[bool]

# The parameters besides the steps.
PARAMETERS = ("sparse_threshold", "n_jobs", "transformer_weights", "verbose", "verbose_feature_names_out")
# Steps without an estimator.
WORDS = ("drop", "passthrough")


def is_column_transformer(value: object) -> bool:
    """Return whether this is a ColumnTransformer."""
    return type(value) is ColumnTransformer


# ---------------------------------------------------------------------- writing


def parts_of(step: ColumnTransformer) -> list[tuple[str, Any, Columns]]:
    """Return the name, the step and the columns of each part, fitted if the whole is; the remainder is last.

    Columns that were chosen by a function or a slice are stored as the numbers or names that it chose.
    """
    fitted = hasattr(step, "transformers_")
    given = [*step.transformers, ("remainder", step.remainder, [])]
    found = {name: (part, columns) for name, part, columns in step.transformers_} if fitted else {}
    parts = []
    for name, part, columns in given:
        if callable(columns) and not fitted:
            raise TypeError(
                f"the columns of {name!r} are chosen by a Python function, and a file contains no code; fit "
                "the pipeline first, or give a list of columns"
            )
        if not isinstance(part, str):
            part = found[name][0] if name in found and isinstance(found[name][0], BaseEstimator) else part
        if callable(columns):
            columns = found[name][1]
        parts.append((name, part, _plain(columns, step)))
    return parts


def _plain(columns: Any, step: ColumnTransformer) -> Columns:
    if isinstance(columns, slice):
        names = step.feature_names_in_.tolist() if hasattr(step, "feature_names_in_") else None
        if not hasattr(step, "n_features_in_"):
            raise TypeError("columns given by a slice cannot be stored before fit; give a list of columns")
        return column_numbers(columns, names, int(step.n_features_in_))
    if isinstance(columns, str | int):
        plain: Columns = columns
    else:
        plain = np.asarray(columns).tolist() if len(columns) else []
    return plain


def learned_columns(step: ColumnTransformer) -> dict[str, Any] | None:
    """Return what a ColumnTransformer has learned besides its steps; None if it is not fitted."""
    if not hasattr(step, "transformers_"):
        return None
    learned: dict[str, Any] = {
        "n_features_in_": int(step.n_features_in_),
        "sparse_output_": bool(step.sparse_output_),
    }
    if hasattr(step, "feature_names_in_"):
        learned["feature_names_in_"] = step.feature_names_in_
    return learned


# ---------------------------------------------------------------------- reading


def make_columns(parameters: object, parts: object, learned: object) -> ColumnTransformer:
    """Return a ColumnTransformer from its parameters, parts and what it has learned, after checking them."""
    given = require_names(parameters, set(PARAMETERS), "parameters of ColumnTransformer")
    require(
        isinstance(given["verbose_feature_names_out"], bool), "verbose_feature_names_out should be a bool"
    )
    require(isinstance(parts, list) and len(parts) > 0, "a ColumnTransformer should have parts")
    assert isinstance(parts, list)
    for part in parts:
        right = isinstance(part, list) and len(part) == 3 and isinstance(part[0], str)
        require(right, "parts of a ColumnTransformer should have a name, a step and columns")
        allowed = isinstance(part[1], BaseEstimator) or (isinstance(part[1], str) and part[1] in WORDS)
        require(allowed, "parts of a ColumnTransformer should be steps")
        _check_columns(part[2])
    names = [name for name, _, _ in parts]
    require(names[-1] == "remainder", "the last part of a ColumnTransformer should be the remainder")
    require(len(set(names)) == len(names), "parts of a ColumnTransformer should have different names")
    unfitted = [(name, _unfitted(step), columns) for name, step, columns in parts]
    made = ColumnTransformer(unfitted[:-1], remainder=unfitted[-1][1], **given)
    made._validate_params()
    if learned is not None:
        _restore(made, {name: step for name, step, _ in parts}, learned)
    return made


def _check_columns(columns: object) -> None:
    if isinstance(columns, str) or (isinstance(columns, int) and not isinstance(columns, bool)):
        return
    require(isinstance(columns, list), "columns should be a name, a number, or a list of these")
    assert isinstance(columns, list)
    kinds = {type(column) for column in columns}
    require(len(kinds) <= 1 and kinds <= {str, int, bool}, "columns should be names, numbers or truth values")


def _unfitted(step: Any) -> Any:
    return clone(step) if isinstance(step, BaseEstimator) else step


def _restore(made: ColumnTransformer, steps: dict[str, Any], learned: object) -> None:
    """Give a new ColumnTransformer the steps and attributes of the one that was saved."""
    found = require_names(
        learned,
        {"n_features_in_", "sparse_output_"},
        "ColumnTransformer should have learned",
        frozenset({"feature_names_in_"}),
    )
    d = require_int(found["n_features_in_"], 1, 2**31 - 1, "number of features")
    require(isinstance(found["sparse_output_"], bool), "sparse_output_ should be a bool")
    row: Any = np.zeros((1, d))
    if "feature_names_in_" in found:
        names = found["feature_names_in_"]
        require(isinstance(names, np.ndarray) and names.shape == (d,), f"there should be {d} feature names")
        require(all(isinstance(text, str) for text in names.tolist()), "feature names should be text")
        import pandas as pd

        row = pd.DataFrame(row, columns=names.tolist())
    made.fit(row)
    widths = {name: place.stop - place.start for name, place in made.output_indices_.items()}
    replaced = []
    for name, new, columns in made.transformers_:
        step = steps.get(name)
        if isinstance(step, BaseEstimator) and hasattr(new, "n_features_in_"):
            takes: Any = getattr(step, "n_features_in_", None)
            require(
                takes == new.n_features_in_,
                f"{name} should take the {new.n_features_in_} features given to it",
            )
            own: Any = getattr(step, "feature_names_in_", None)
            expected: Any = getattr(new, "feature_names_in_", None)
            right = own is None or np.array_equal(own, expected)
            require(right, f"{name} should have learned the names of its columns")
            widths[name] = (
                len(step.get_feature_names_out()) if isinstance(step, OneHotEncoder) else int(takes)
            )
            new = step
        replaced.append((name, new, columns))
    made.transformers_ = replaced
    start, places = 0, {}
    for name in made.output_indices_:
        places[name] = slice(start, start + widths[name]) if widths[name] else slice(0, 0)
        start += widths[name]
    made.output_indices_ = places
    made.sparse_output_ = found["sparse_output_"]
