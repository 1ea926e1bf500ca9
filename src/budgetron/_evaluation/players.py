"""Play the rounds of a block with one learner: predict, then learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from budgetron._base.access import open_batch, stale_share
from budgetron._base.batches import encode, predicted_codes, signed_margin
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.trace import Trace
from budgetron._evaluation.classifier import (
    Classifier,
    can_predict,
    margins_before_label,
    n_supports,
    traces_its_predictions,
)
from budgetron._evaluation.delayed import DelayedRows
from budgetron._util.threads import one_thread
from budgetron._util.types import Codes, Floats, Ints, Label, Labels, Rows

__all__ = ["Played", "learn_row", "play_block", "play_delayed", "traced"]

# For each round, the column of the confusion matrix, the number of supports after the round, and the margin
# before it, with more than two classes that of each class; None if they are not known.
Played = tuple[Codes, Ints, Floats | None]


def play_block(model: Classifier, X: Rows, y: Labels, classes: Labels) -> Played:
    """Play the rounds of a block with labels that are known immediately."""
    if isinstance(model, OnlineClassifier) and traces_its_predictions(model):
        return traced(model.progressive_fit(X, y, classes), encode(y, classes))
    if isinstance(model, OnlineClassifier) and stale_share(model):
        return _play_averages(model, X, y, classes)
    return _play_rows(model, X, y, classes)


def traced(trace: Trace, codes: Codes) -> Played:
    """Return the columns and supports of the rounds of a trace."""
    columns = confusion_columns(trace.codes, trace.margins, trace.mistakes, codes)
    return columns, trace.support_sizes, trace.margins


def _play_averages(model: OnlineClassifier, X: Rows, y: Labels, classes: Labels) -> Played:
    """Play rounds of a model that predicts by an average, which changes slowly.

    Evaluating the average before every row would take hundreds of times as long as learning. So it is
    evaluated for several rows at once: at most `stale_share` of the number of rounds it is the average of.
    """
    n = len(y)
    columns, supports = np.zeros(n, np.intp), np.zeros(n, np.int64)
    scores = np.zeros(n if len(classes) == 2 else (n, len(classes)))
    X = open_batch(model, X, y, classes).X  # so that the whole block determines gamma="scale"
    start = 0
    while start < n:
        rows = slice(start, min(n, start + max(1, int(stale_share(model) * model.rounds_))))
        if model.rounds_:
            values = model.decision_function(X[rows])
            columns[rows] = predicted_codes(values)
            scores[rows] = values
        supports[rows] = model.progressive_fit(X[rows], y[rows], classes).support_sizes
        start = rows.stop
    return columns, supports, scores


def confusion_columns(
    predictions: Codes, margins: Floats, mistakes: NDArray[np.bool_], codes: Codes
) -> Codes:
    """Return the column of the confusion matrix in which each round is counted.

    This is the predicted class, except where a tie predicts the true class. Such a round is a mistake, and a
    mistake is never counted on the diagonal. It is counted as the other class with the largest margin.
    """
    columns = predictions.copy()
    ties = mistakes & (predictions == codes)
    if margins.ndim == 1:
        columns[ties] = 1 - codes[ties]
    elif ties.any():
        others = margins[ties].copy()
        np.put_along_axis(others, codes[ties][:, None], -np.inf, axis=1)
        columns[ties] = others.argmax(axis=1)
    return columns


def _play_rows(model: Classifier, X: Rows, y: Labels, classes: Labels) -> Played:
    """Call `predict` before each row is learned. Before its first row, a model predicts the first class."""
    columns, supports = np.zeros(len(y), np.intp), np.zeros(len(y), np.int64)
    if isinstance(model, OnlineClassifier):
        X = open_batch(model, X, y, classes).X  # so that the whole block determines gamma="scale"
    for t in range(len(y)):
        row = X[t : t + 1]
        if can_predict(model):
            columns[t] = encode(model.predict(row), classes)[0]
        model.partial_fit(row, y[t : t + 1], classes=classes)
        supports[t] = n_supports(model)
    return columns, supports, None


def play_delayed(
    model: Classifier, X: Rows, y: Labels, classes: Labels, waiting: DelayedRows, delay: int
) -> Played:
    """Predict each row, then learn the row that came `delay` rows earlier."""
    if isinstance(model, OnlineClassifier):
        X = open_batch(model, X, y, classes).X  # so that the whole block determines gamma="scale"
    codes, supports = encode(y, classes), np.zeros(len(y), np.int64)
    columns, margins = np.zeros(len(y), np.intp), []
    with one_thread():
        for t in range(len(y)):
            row = X[t : t + 1]
            if isinstance(model, OnlineClassifier):
                margins.append(margins_before_label(model, row))
            elif can_predict(model):
                columns[t] = encode(model.predict(row), classes)[0]
            waiting.add(row, y[t])
            if len(waiting) > delay:
                learn_row(model, *waiting.next(), classes)
            supports[t] = n_supports(model)
    if margins:
        values = np.stack(margins)
        values = values[:, 0] if values.shape[1] == 1 else values
        mistakes = signed_margin(values, codes, multiclass=values.ndim == 2) <= 0.0
        columns = confusion_columns(predicted_codes(values), values, mistakes, codes)
        return columns, supports, values
    return columns, supports, None


def learn_row(model: Classifier, row: Rows, label: Label, classes: Labels) -> None:
    """Learn one row of shape (1, n_features)."""
    if isinstance(model, OnlineClassifier):
        model.play(row, label.item() if isinstance(label, np.generic) else label)
    else:
        model.partial_fit(row, [label], classes=classes)
