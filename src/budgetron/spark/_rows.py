"""Rows of Spark frames: the columns of a stream, why a row is invalid, and rows as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as T  # noqa: N812 - the usual name

from budgetron._base.large_values import LARGEST
from budgetron._core.key_index import LONGEST_TEXT
from budgetron._util.types import Floats, Labels, Positions

__all__ = [
    "BAD_ROWS",
    "check_bad_rows",
    "check_columns",
    "check_number",
    "feature_column",
    "feature_reason",
    "key_reason",
    "label_reason",
    "label_type",
    "matrix_of",
    "row_dtype",
    "row_reason",
    "sorted_places",
    "stop_at",
]

BAD_ROWS = ("quarantine", "fail")

FLOAT64 = np.dtype(np.float64)
NUMERIC = (T.NumericType, T.BooleanType)
# For each kind of NumPy array, the types of a label column and the type of predictions.
LABELS: dict[str, tuple[tuple[type, ...], str]] = {
    "i": ((T.IntegralType,), "bigint"),
    "u": ((T.IntegralType,), "bigint"),
    "f": ((T.FractionalType,), "double"),
    "b": ((T.BooleanType,), "boolean"),
    "U": ((T.StringType,), "string"),
    "O": ((T.StringType,), "string"),
}


def check_bad_rows(bad_rows: str) -> None:
    """Raise `ValueError` unless this is a known way to treat invalid rows."""
    if bad_rows not in BAD_ROWS:
        raise ValueError(f"bad_rows must be one of {BAD_ROWS}; got {bad_rows!r}")


def check_number(name: str, value: int) -> int:
    """Return a number of at least 1, or raise `ValueError`."""
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
    return int(value)


def check_columns(df: DataFrame, names: Sequence[str]) -> None:
    """Raise `ValueError` unless the frame has these columns."""
    missing = [name for name in names if name not in df.columns]
    if missing:
        raise ValueError(f"the frame has no column {missing[0]!r}; it has {', '.join(df.columns[:20])}")


def feature_column(df: DataFrame, features: str | Sequence[str]) -> Column:
    """Return the features as one column of arrays of doubles: one array column, or several numeric ones."""
    if isinstance(features, str):
        check_columns(df, [features])
        kind = df.schema[features].dataType
        if not isinstance(kind, T.ArrayType) or not isinstance(kind.elementType, NUMERIC):
            raise ValueError(
                f"features must be a column of arrays of numbers, or a list of numeric columns; {features!r} "
                f"is {kind.simpleString()}"
            )
        return F.col(f"`{features}`").cast("array<double>")
    names = list(features)
    if not names:
        raise ValueError("features must name at least one column")
    check_columns(df, names)
    for name in names:
        if not isinstance(df.schema[name].dataType, NUMERIC):
            raise ValueError(
                f"features must be numeric columns; {name!r} is {df.schema[name].dataType.simpleString()}"
            )
    return F.array(*(F.col(f"`{name}`").cast("double") for name in names))


def row_dtype(df: DataFrame, features: str | Sequence[str]) -> np.dtype[Any]:
    """Return float32 if all features are floats of 32 bits, and float64 otherwise."""
    kinds = [df.schema[name].dataType for name in ([features] if isinstance(features, str) else features)]
    kinds = [kind.elementType if isinstance(kind, T.ArrayType) else kind for kind in kinds]
    return np.dtype(np.float32 if all(isinstance(kind, T.FloatType) for kind in kinds) else np.float64)


def feature_reason(features: Column, d: int, dtype: np.dtype[Any] = FLOAT64) -> Column:
    """Return why an array of features is invalid for a model of this type; null if it is valid."""
    wrong = F.exists(features, lambda x: x.isNull() | F.isnan(x) | (F.abs(x) == float("inf")))
    found = F.concat(F.size(features).cast("string"), F.lit(f" instead of {d}"))
    return (
        F.when(features.isNull(), F.lit("the features are null"))
        .when(F.size(features) != d, F.concat(F.lit("the number of features is "), found))
        .when(wrong, F.lit("a feature is null or not finite"))
        .when(F.exists(features, lambda x: F.abs(x) >= LARGEST[dtype.name]), F.lit("a feature is too large"))
    )


def label_type(classes: Labels) -> str:
    """Return the type of a column of predictions."""
    return LABELS[classes.dtype.kind][1]


def label_reason(df: DataFrame, label: str, classes: Labels) -> Column:
    """Return why a label is invalid; null if it is valid."""
    kinds, _ = LABELS[classes.dtype.kind]
    found = df.schema[label].dataType
    if not isinstance(found, kinds):
        raise ValueError(
            f"the label column {label!r} is {found.simpleString()}, and the classes of the model are of "
            f"{classes.dtype}; cast the column"
        )
    column = F.col(f"`{label}`")
    known = column.isin(classes.tolist())
    return F.when(column.isNull(), F.lit("the label is null")).when(
        ~known, F.concat(F.lit("unknown label "), column.cast("string"))
    )


def key_reason(df: DataFrame, key: str) -> Column:
    """Return why a fleet cannot have a text as a key; null if it can. Integers are always valid."""
    if not isinstance(df.schema[key].dataType, T.StringType):
        return F.lit(None).cast("string")
    column = F.col(f"`{key}`")
    return F.when(
        F.octet_length(column) > LONGEST_TEXT, F.lit(f"the key has more than {LONGEST_TEXT} bytes")
    ).when(~F.is_valid_utf8(column), F.lit("the key is not valid UTF-8"))


def row_reason(
    df: DataFrame,
    needed: Mapping[str, Column],
    features: Column,
    d: int,
    label: str,
    classes: Labels,
    dtype: np.dtype[Any] = FLOAT64,
) -> Column:
    """Return why a row cannot be learned; null if it is valid. No column in `needed` may be null."""
    nulls = [F.when(column.isNull(), F.lit(f"the {name} is null")) for name, column in needed.items()]
    return F.coalesce(*nulls, feature_reason(features, d, dtype), label_reason(df, label, classes))


def stop_at(reason: Column, verb: str) -> Column:
    """Return a column that is null for valid rows and stops the query at the first invalid row."""
    message = F.concat(F.lit(f"a row cannot be {verb}: "), reason)
    return F.when(reason.isNotNull(), F.raise_error(message).cast("string"))


def matrix_of(arrays: Any, d: int) -> Floats:
    """Return an Arrow column of arrays of d doubles as a matrix."""
    flat = arrays.combine_chunks().flatten() if hasattr(arrays, "combine_chunks") else arrays.flatten()
    return np.ascontiguousarray(flat.to_numpy(zero_copy_only=False), np.float64).reshape(-1, d)


def sorted_places(order: Any, y: Labels, X: Floats) -> Positions:
    """Return the places of rows, sorted by order (an Arrow column), then by label, then by features."""
    ranks = np.asarray(pc.rank(order, tiebreaker="dense"))
    if len(ranks) and ranks.max() == len(ranks):
        return np.argsort(ranks)
    return np.lexsort((*X.T[::-1], np.unique(y, return_inverse=True)[1], ranks))
