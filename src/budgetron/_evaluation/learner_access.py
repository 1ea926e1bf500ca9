"""What evaluation needs from a learner beyond its public methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron._base.batches import Batch, Rows
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.trace import Trace
from budgetron._core.rounds import Learner
from budgetron.portfolio._portfolio import Portfolio

__all__ = [
    "Classifier",
    "Codes",
    "Estimator",
    "Labels",
    "can_predict",
    "close_batch",
    "hypotheses",
    "n_supports",
    "next_margins",
    "open_batch",
    "restored_on_error",
    "shared_threads",
    "traces_its_predictions",
    "unchanged_on_error",
]

Codes = NDArray[np.intp]
Labels = NDArray[Any]


@runtime_checkable
class Classifier(Protocol):
    """A classifier that learns a stream: of Budgetron, or of any library that follows scikit-learn."""

    def partial_fit(self, X: Rows, y: ArrayLike, classes: Labels) -> object: ...
    def predict(self, X: Rows) -> Labels: ...


class Estimator(Classifier, Protocol):
    """A classifier with parameters."""

    def get_params(self, deep: bool = ...) -> dict[str, object]: ...


def can_predict(model: Classifier) -> bool:
    """Return whether a model has learned a row, so that `predict` works."""
    if isinstance(model, OnlineClassifier):
        return model.rounds_ > 0
    return hasattr(model, "classes_")  # scikit-learn's mark of a fitted classifier


def traces_its_predictions(model: Classifier) -> bool:
    """Return whether `progressive_fit` reports the predictions that `predict` would have made."""
    return isinstance(model, OnlineClassifier) and model._predicts_as_it_learns


def open_batch(
    model: OnlineClassifier,
    X: Rows,
    y: ArrayLike,
    classes: ArrayLike | None = None,
    *,
    classes_from_y: bool = False,
) -> Batch:
    """Check a batch without learning it. The first batch fixes what depends on it, like ``gamma="scale"``."""
    return model._open_batch(X, y, classes, classes_from_y=classes_from_y)


def close_batch(model: OnlineClassifier, batch: Batch) -> Trace:
    """Count the mistakes of a batch whose rounds have been played; return its trace."""
    trace = model._close_batch(batch)
    assert trace is not None
    return trace


def unchanged_on_error(model: OnlineClassifier) -> AbstractContextManager[None]:
    """Restore the attributes of a model after an error. An interrupt keeps the rounds learned so far."""
    return model._unchanged_on_error()


@contextmanager
def restored_on_error(models: Sequence[OnlineClassifier], batches: Sequence[Batch]) -> Iterator[None]:
    """Restore the hypotheses of all models if a round of one of them fails."""
    may_fail = any(
        batch.importances is not None or model._batch_may_fail(batch.X)
        for model, batch in zip(models, batches, strict=True)
    )
    if not models:
        yield
        return
    with models[0]._restored_on_error(may_fail), restored_on_error(models[1:], batches[1:]):
        yield


def hypotheses(model: KernelClassifier) -> list[Learner]:
    """Return the hypothesis of each output of a fitted kernel learner."""
    return model._learners


def shared_threads(models: Sequence[KernelClassifier]) -> int:
    """Return the largest number of threads that one of the models may use."""
    return max(model._threads() for model in models)


def next_margins(model: OnlineClassifier, row: Rows) -> NDArray[np.float64]:
    """Return the margin of each output for one checked row; 0 before the first round."""
    if not model.rounds_:
        return np.zeros(len(model._learners))
    return model._margins(row)[:, 0]


def n_supports(model: Classifier) -> int:
    """Return the number of supports over all outputs; 0 for models without supports."""
    if not isinstance(model, OnlineClassifier) or not model.__sklearn_is_fitted__():
        return 0
    total = 0
    for hypothesis in model._learners:
        if isinstance(hypothesis, Learner):
            total += hypothesis.supports.m
        elif isinstance(hypothesis, Portfolio):
            total += hypothesis.n_supports
    return total
