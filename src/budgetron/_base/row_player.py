"""Rows: check them, and play the rounds of a batch with every hypothesis."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from budgetron._base.batches import Batch, validated
from budgetron._base.fitted_estimator import FittedEstimator
from budgetron._base.large_values import name_large_value, refuse_infinity
from budgetron._base.progress import shown
from budgetron._base.protocol import Hypothesis
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.numbers import largest
from budgetron._util.sparse import check_sparse
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Matrix, Row, Rows

__all__ = ["RowPlayer", "batch_may_fail", "restore_hypotheses_on_error"]

# The types in which the core computes.
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class RowPlayer(FittedEstimator):
    """An estimator that checks rows and plays the rounds of a batch."""

    # Whether predictions are those of the hypothesis that plays the next round.
    _predicts_as_it_learns: ClassVar[bool] = True

    # ------------------------------------------------------------------ hooks of subclasses

    def _refuse_large(self, X: Matrix, square: float) -> None:
        """Raise `ValueError` if a value is too large to learn; squared norms of rows are at most `square`."""

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """Yield the parts of a batch; an interrupt takes effect between them."""
        yield batch

    def _rounds(self, batch: Batch) -> None:
        """Play the rounds of a batch with each hypothesis."""
        for i, hypothesis in enumerate(self._learners):
            self._learn_output(hypothesis, batch, i)

    def _learn_output(self, hypothesis: Any, batch: Batch, i: int, **options: object) -> None:
        """Play the rounds of a batch with hypothesis i; `options` are for its `learn`."""
        margins = batch.margins
        if margins is not None:
            margins = margins.T if len(margins) > len(self._learners) else margins[i]
        hypothesis.learn(
            batch.X,
            batch.labels[i],
            margins,
            None if batch.sizes is None else batch.sizes[i],
            None if batch.ledger is None else batch.ledger[i],
            importances=batch.importances,
            **options,
        )

    # ------------------------------------------------------------------ batches

    def _play_parts(self, batch: Batch) -> None:
        """Play the rounds of a batch; after an error, all hypotheses are as before.

        An interrupt takes effect when all hypotheses have played the same rounds.
        """
        with (
            name_large_value(batch.X),
            restore_hypotheses_on_error(self._learners, batch_may_fail(self._learners, batch)),
            one_thread(),
        ):
            for part in shown(self._parts(batch), len(batch)):
                with defer_interrupts():  # so that all hypotheses have played the same rounds
                    self._rounds(part)

    # ------------------------------------------------------------------ predictions

    def _decide(self, hypothesis: Any, X: Matrix) -> Floats:
        """Return the values of one hypothesis at rows that were checked: margins, or predictions."""
        values: Floats = hypothesis.decide(X)
        return values

    def _finite_values(self, X: Matrix, values_of: Callable[[Matrix], Floats], what: str) -> Floats:
        """Return values at rows that were checked, one or one column for each row.

        If one is not finite, raise an error that says which; `what` names the values.
        """
        with name_large_value(X):
            with one_thread():
                values = values_of(X)
            finite = np.isfinite(values)
            if not finite.all():
                row = int(np.flatnonzero(~np.atleast_2d(finite).all(axis=0))[0])
                raise ValueError(f"{what} row {row} is not finite; scale the features")
        return values

    # ------------------------------------------------------------------ rows

    def _check_rows(self, X: Rows) -> Matrix:
        """Return the rows as the hypotheses need them, after checking them."""
        return self._validated(X)

    def _validated(
        self, X: Rows, y: ArrayLike | Literal["no_validation"] = "no_validation", **options: Any
    ) -> Any:
        first = not self.__sklearn_is_fitted__()
        dtype = (np.float64, np.float32) if first else self._learners[0].dtype
        converts = not first and getattr(X, "dtype", None) != dtype
        try:
            # NumPy would warn of values that are too large for the type; an error says more.
            with np.errstate(over="ignore") if converts else nullcontext():
                return validated(self, X, y, dtype=dtype, order="C", reset=first, **options)
        except (ValueError, OverflowError):
            # scikit-learn does not say where, and not whether a value is infinite or only too large.
            refuse_infinity(X, _type_of(X) if first else self._learners[0].dtype)
            raise

    def _first_row(self, x: Row) -> Matrix:
        """Return the first row of a model as a matrix of one row, after checking it."""
        if type(x) is np.ndarray and x.ndim == 1 and len(x) and x.dtype in FLOATS and largest(x) < np.inf:
            self.n_features_in_ = len(x)  # scikit-learn's checks take as long as a hundred rounds
            return np.ascontiguousarray(x).reshape(1, -1)
        row: Any = x if issparse(x) else np.asarray(x)
        if issparse(row):
            check_sparse(row)
        if row.ndim != 1 and row.shape[:-1] != (1,):
            raise ValueError(f"x must be one row of features; got an array of shape {row.shape}")
        return self._check_rows(row.reshape((1, -1)).tocsr() if issparse(row) else row.reshape(1, -1))

    def _add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        for hypothesis in self._learners:
            hypothesis.add_features(d)
        self.n_features_in_ = d

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _type_of(X: Rows) -> np.dtype[Any]:
    """Return the type in which rows are computed with, if they are the first."""
    return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)


def batch_may_fail(hypotheses: Sequence[Hypothesis], batch: Batch) -> bool:
    """Return whether a round of this batch might overflow, or call a kernel function that fails."""
    if batch.importances is not None:
        return True
    return not all(hypothesis.is_safe(batch.square) for hypothesis in hypotheses)


@contextmanager
def restore_hypotheses_on_error(hypotheses: Sequence[Hypothesis], may_fail: bool) -> Iterator[None]:
    """Restore the hypotheses if rounds fail half way.

    Rounds on rows of moderate size cannot fail. A copy is made only where they might: where values may
    overflow, or where the kernel is a Python function.
    """
    if not may_fail:
        yield
        return
    before = copy.deepcopy(list(hypotheses))
    try:
        yield
    except BaseException:
        for hypothesis, saved in zip(hypotheses, before, strict=True):
            hypothesis.restore_from(saved)
        raise
