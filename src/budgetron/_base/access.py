"""Functions by which other packages reach into estimators, so that private names stay inside this package."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from budgetron._base.batches import Batch
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.kernel_regressor import KernelRegressor
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.row_player import RowPlayer
from budgetron._base.theorems import DeclaredTheorem
from budgetron._base.trace import Trace
from budgetron._core.kernel import Kernel
from budgetron._core.linear import LinearRule, with_constant
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats, Label, Matrix, Row, Rows

__all__ = [
    "add_class",
    "add_features",
    "bytes_needed",
    "check_parameters",
    "checked_rows",
    "close_batch",
    "competitor_kernel",
    "competitor_rows",
    "has_intercept",
    "hypotheses_of",
    "kernel_hypotheses_of",
    "linear_part",
    "margins_of",
    "n_supports",
    "next_margins",
    "next_row_margins",
    "open_batch",
    "play_batch",
    "predicts_as_it_learns",
    "row_dtype",
    "stale_share",
    "start_regressor",
    "theorems_of",
    "thread_count",
    "unchanged_on_error",
]


def hypotheses_of(model: RowPlayer) -> Sequence[Any]:
    """Return the hypotheses of a fitted model, one for each output or one for all."""
    return model._fitted()


def kernel_hypotheses_of(model: KernelClassifier) -> Sequence[Learner]:
    """Return the hypotheses of a fitted kernel learner, one for each output or one for all."""
    return model._fitted()


def linear_part(hypothesis: Learner) -> tuple[Floats, Floats] | None:
    """Return the slopes and intercepts that f(x) has besides the sum over the supports, or None.

    The slopes have shape (n_outputs, n_features), and the intercepts (n_outputs,).
    """
    gaussian = hypothesis.rule.gaussian
    if gaussian is None or not gaussian.linear:
        return None
    slopes = gaussian.slopes if gaussian.diagonal else gaussian.means[:, 1 : gaussian.fixed]
    return gaussian.scale * slopes, gaussian.means[:, 0].copy()


def predicts_as_it_learns(model: OnlineClassifier) -> bool:
    """Return whether `decision_function` is the hypothesis that predicts the next round."""
    return model._predicts_as_it_learns


def stale_share(model: OnlineClassifier) -> float:
    """Return for how many more rounds, as a share of those so far, `decision_function` hardly changes."""
    return model._stale_share


def margins_of(model: OnlineClassifier, X: Matrix) -> Floats:
    """Return the margins of checked rows, of shape (n_outputs, n)."""
    return model._margins(X)


def next_margins(model: OnlineClassifier, X: Matrix) -> Floats:
    """Return the margins of checked rows, each as the next row of the stream, of shape (n_outputs, n)."""
    return model._next_margins(X)


def next_row_margins(model: OnlineClassifier, row: Row) -> Floats:
    """Return the margin of each output for the next row of the stream."""
    hypotheses = model._fitted()
    if model._predicts_as_it_learns and (hypotheses[0].budget or not hypotheses[0].n_supports):
        # Opening a round without closing it does not change f, and is much faster. Without a budget it may
        # enlarge the storage.
        return np.array([hypothesis.open_round(row) for hypothesis in hypotheses]).reshape(-1)
    return model._next_margins(row[None])[:, 0]


def n_supports(model: RowPlayer) -> int:
    """Return the number of supports over all outputs; 0 before the first round."""
    if not model.__sklearn_is_fitted__():
        return 0
    return sum(hypothesis.n_supports for hypothesis in model._fitted())


def row_dtype(model: RowPlayer) -> np.dtype[np.floating]:
    """Return the floating-point type in which a fitted model computes."""
    return model._fitted()[0].dtype


def bytes_needed(model: OnlineClassifier | OnlineRegressor, X: Matrix, n_classes: int) -> int:
    """Return about the bytes of an unfitted learner on rows like X, at its budget or else at the start.

    A regressor has no classes. Raises `MemoryTooSmallError` if it may use less memory than it needs.
    """
    rows = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    return model._bytes_needed(rows, n_classes if n_classes > 2 else 1)


def theorems_of(model: OnlineClassifier, radius: float) -> list[DeclaredTheorem]:
    """Return the theorems that a fitted model declares, for a stream with this largest sqrt(k(x, x))."""
    return model._theorems(radius)


def competitor_kernel(model: OnlineClassifier | KernelRegressor) -> Kernel:
    """Return the kernel whose space contains the competitors of a fitted model's theorems."""
    return model._competitor_kernel()


def competitor_rows(model: OnlineClassifier, X: Rows) -> Floats:
    """Return the rows in the space of the competitors: dense, and (1, x) if the model has an intercept."""
    rows = checked_rows(model, X)
    dense = np.ascontiguousarray(rows.toarray() if issparse(rows) else rows, float)
    return with_constant(dense) if has_intercept(model) else dense


def has_intercept(model: OnlineClassifier) -> bool:
    """Return whether a fitted model is linear and has an intercept."""
    hypothesis = hypotheses_of(model)[0]
    return isinstance(hypothesis, LinearRule) and hypothesis.constant == 1


def check_parameters(model: RowPlayer) -> None:
    """Check that the parameters are valid at the first call, and unchanged at later ones."""
    model._check_parameters()


def checked_rows(model: RowPlayer, X: Rows) -> Matrix:
    """Return the rows as the model's hypotheses need them, after checking them."""
    return model._check_rows(X)


def open_batch(model: OnlineClassifier, X: Rows, y: ArrayLike, classes: ArrayLike | None = None) -> Batch:
    """Check a batch, and make the hypotheses if it is the first; its results will form a trace."""
    return model._open_batch(X, y, classes, classes_from_y=True)


def start_regressor(model: OnlineRegressor, X: Rows, y: ArrayLike) -> None:
    """Check rows and targets, and make the hypothesis if they are the first; they are not learned."""
    with model._unchanged_on_error():
        model._open_batch(X, y, trace=False, ledger=False, weights=None)


def play_batch(model: OnlineClassifier, batch: Batch) -> None:
    """Play the rounds of a batch."""
    model._rounds(batch)


def close_batch(model: OnlineClassifier, batch: Batch) -> Trace:
    """Count the mistakes of a batch whose rounds were played, and return its trace."""
    trace = model._close_batch(batch)
    assert trace is not None
    return trace


def unchanged_on_error(model: RowPlayer) -> AbstractContextManager[None]:
    """Return a context that restores the model's attributes if an error occurs."""
    return model._unchanged_on_error()


def thread_count(model: KernelClassifier) -> int:
    """Return the number of threads that `n_jobs` stands for."""
    return model._threads()


def add_class(model: OnlineClassifier, label: Label) -> None:
    """Add a class to a fitted model."""
    model._admit(label)


def add_features(model: OnlineClassifier | OnlineRegressor | OnlineDetector, d: int) -> None:
    """Let a fitted model take rows of d features; the new ones were 0 in all rows so far."""
    model._add_features(d)
