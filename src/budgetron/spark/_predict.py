"""Predictions of a frozen model, as a column of a frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from budgetron import files
from budgetron._base.batches import predicted_codes
from budgetron.spark._rows import check_bad_rows, feature_column, feature_reason, label_type, stop_at

__all__ = ["predict"]

ADDED = ("margin", "prediction", "reason")


def predict(
    df: DataFrame, model: Any, *, features: str | Sequence[str], bad_rows: str = "quarantine"
) -> DataFrame:
    """Add the predictions of a model to a frame.

    Parameters
    ----------
    df : DataFrame
        Streaming or batch.
    model : estimator
        A fitted classifier of Budgetron that `budgetron.save` can store. It does not change: the frame
        contains a copy of its present state.
    features : str, or sequence of str
        A column of arrays of numbers, or numeric columns, in the order in which the model learned them.
    bad_rows : {"quarantine", "fail"}, default="quarantine"
        What to do with rows that the model cannot predict. "quarantine": their margin and prediction are
        null, and `reason` says why. "fail": the first such row stops the query.

    Returns
    -------
    DataFrame
        The columns of `df`; `margin`, an array with one number per class if there are more than two;
        `prediction`; and `reason`, which is null for valid rows.
    """
    check_bad_rows(bad_rows)
    taken = [name for name in ADDED if name in df.columns]
    if taken:
        raise ValueError(f"the frame has a column {taken[0]!r} already; rename it")
    d, classes = int(model.n_features_in_), model.classes_
    several = len(classes) > 2
    data = files.to_bytes(model)
    kind = f"margin {'array<double>' if several else 'double'}, prediction {label_type(classes)}"

    @F.pandas_udf(kind)  # type: ignore[untyped-decorator]  # the type hints say how it is called
    def predicted(parts: Iterator[pd.Series]) -> Iterator[pd.DataFrame]:
        own = files.from_bytes(data)
        for part in parts:
            yield predictions(own, part, d, several)

    rows = feature_column(df, features)
    reason = feature_reason(rows, d)
    # Invalid rows reach the model as null.
    valid = F.when(reason.isNull(), rows)
    if bad_rows == "fail":
        reason = stop_at(reason, "predicted")
    return (
        df.withColumn("reason", reason)
        .withColumn("predicted", predicted(valid))
        .select(
            *(F.col(f"`{name}`") for name in df.columns), "predicted.margin", "predicted.prediction", "reason"
        )
    )


def predictions(model: Any, rows: pd.Series, d: int, several: bool) -> pd.DataFrame:
    """Return the margins and predictions of rows, some of which may be null."""
    valid = rows.notna().to_numpy()
    margins, labels = np.full(len(rows), None, object), np.full(len(rows), None, object)
    if valid.any():
        X = np.stack(rows[valid].to_numpy()).reshape(-1, d)
        values = model.decision_function(X)
        labels[valid] = model.classes_[predicted_codes(values)].tolist()
        if several:
            margins[valid] = pd.Series(list(values), dtype=object).to_numpy()
        else:
            margins[valid] = values
    return pd.DataFrame(
        {"margin": pd.Series(margins, dtype=object), "prediction": pd.Series(labels, dtype=object)}
    )
