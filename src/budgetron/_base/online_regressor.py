"""`OnlineRegressor`: scikit-learn's interface for learners of numbers that play rounds."""

from __future__ import annotations

from math import isfinite
from typing import Never, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from budgetron._base.batches import Batch, largest_square, ledger_columns, refuse_unknown
from budgetron._base.large_values import refuse_large_row
from budgetron._base.progress import verbose_call
from budgetron._base.regression_theorems import RegressionTheorem
from budgetron._base.regression_trace import RegressionTrace
from budgetron._base.row_player import RowPlayer
from budgetron._base.sample_weights import checked_weights, refuse_zero_weights
from budgetron._util.types import Floats, Ints, Matrix, Row, Rows

__all__ = ["LARGEST_TARGET", "OnlineRegressor"]

# Absolute values of targets must be below this, so that squares of steps cannot overflow.
LARGEST_TARGET = 1e30

NO_CODES = np.zeros(0, np.intp)


class OnlineRegressor(RegressorMixin, RowPlayer):
    """The base of all regressors.

    A subclass defines how its one hypothesis is made (`_make`, `_restore`). The labels of the hypothesis are
    the targets, and its margins are the predictions.
    """

    # ------------------------------------------------------------------ learning

    def fit(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        verbose: bool = False,
        **unknown: Never,
    ) -> Self:
        """Forget everything, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,), optional
            The loss of each row is multiplied by its weight. A row of weight 0 is predicted and not learned.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "fit", unknown)
        refuse_zero_weights(sample_weight)
        with self._unchanged_on_error(), verbose_call(verbose):
            self._forget()
            self._learn(X, y, weights=sample_weight)
        return self

    def partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        verbose: bool = False,
        **unknown: Never,
    ) -> Self:
        """Play one round per row, in the given order, and continue from the current state.

        The result does not depend on how a stream is cut into batches (but ``gamma="scale"``
        is fixed by the first).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,), optional
            The loss of each row is multiplied by its weight. A row of weight 0 is predicted and not learned.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with self._unchanged_on_error(), verbose_call(verbose):
            self._learn(X, y, weights=sample_weight)
        return self

    def progressive_fit(
        self, X: Rows, y: ArrayLike, *, ledger: bool = False, verbose: bool = False
    ) -> RegressionTrace:
        """Do what `partial_fit` does, and return the trace.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Numbers.
        ledger : bool, default=False
            Whether to record quantities of the algorithm, such as the variance of each prediction.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        RegressionTrace
        """
        with self._unchanged_on_error(), verbose_call(verbose):
            trace = self._learn(X, y, trace=True, ledger=ledger)
            assert trace is not None
            return trace

    def _learn(
        self,
        X: Rows,
        y: ArrayLike,
        *,
        trace: bool = False,
        ledger: bool = False,
        weights: ArrayLike | None = None,
    ) -> RegressionTrace | None:
        batch = self._open_batch(X, y, trace=trace, ledger=ledger, weights=weights)
        self._play_parts(batch)
        return self._trace(batch, ledger) if trace else None

    def _open_batch(
        self, X: Rows, y: ArrayLike, *, trace: bool, ledger: bool, weights: ArrayLike | None
    ) -> Batch:
        """Check the rows and targets of a batch, and make the hypothesis if it is the first."""
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        rows, targets = self._validated(X, y, y_numeric=True)
        targets = np.array(targets, np.float64)  # the core needs an array that can be written
        large = np.flatnonzero(~(np.abs(targets) < LARGEST_TARGET))
        if len(large):
            row = int(large[0])
            raise ValueError(
                f"the target of row {row} is {targets[row]:g}, which is too large; scale the targets"
            )
        square = largest_square(rows)
        self._refuse_large(rows, square)
        importances = None if weights is None else np.array(checked_weights(weights, len(targets)))
        if first:
            self._start_outputs(rows, 1)
        names, needs_ledger = self._learners[0].ledger, trace and self._needs_ledger()
        return Batch(
            X=rows,
            square=square,
            codes=NO_CODES,
            labels=[targets],
            margins=np.empty((1, len(targets))) if trace else None,
            sizes=np.empty((1, len(targets)), np.int64) if trace else None,
            ledger=np.empty((1, len(targets), len(names))) if ledger or needs_ledger else None,
            importances=importances,
        )

    def _needs_ledger(self) -> bool:
        """Return whether the predictions of a batch follow from its ledger."""
        return False

    def _trace(self, batch: Batch, ledger: bool) -> RegressionTrace:
        assert batch.sizes is not None
        return RegressionTrace(
            predictions=self._predictions(batch),
            targets=batch.labels[0],
            support_sizes=batch.sizes[0],
            ledger=self._ledger(batch) if ledger else None,
        )

    def _predictions(self, batch: Batch) -> Floats:
        """Return the predictions of a batch that was played."""
        assert batch.margins is not None
        predictions: Floats = batch.margins[0]
        return predictions

    def _ledger(self, batch: Batch) -> dict[str, Floats | Ints]:
        """Return the columns of the ledger of a batch that was played."""
        assert batch.ledger is not None
        return ledger_columns(self._learners[0].ledger, batch.ledger)

    # ------------------------------------------------------------------ single rounds

    def play(self, x: Row, y: float) -> float:
        """Play one round: predict x, then see y and learn.

        Much faster than `partial_fit` on one row. Only shape, finiteness and target are checked.

        Parameters
        ----------
        x : array-like of shape (n_features,), or one sparse row
        y : float

        Returns
        -------
        float
            The prediction before y was seen.
        """
        target = checked_target(y)
        if not self.__sklearn_is_fitted__():
            with self._unchanged_on_error():
                self._check_parameters()
                self._start_outputs(self._first_row(x), 1)
                return self._play_round(x, target)
        return self._play_round(x, target)

    def _play_round(self, x: Row, y: float) -> float:
        """Play one round with a target that was checked."""
        hypothesis = self._learners[0]
        try:
            return float(hypothesis.play(x, y))
        except ValueError as error:
            refuse_large_row(x, hypothesis.dtype, error)
            raise

    # ------------------------------------------------------------------ prediction

    def predict(self, X: Rows) -> Floats:
        """Return the prediction for each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        return self._predict_rows(self._check_rows(X))

    def predict_row(self, x: Row) -> float:
        """Return the prediction for one row of numbers, which is checked less than by `predict`."""
        hypothesis = self._fitted()[0]
        if hypothesis.budget or not hypothesis.n_supports:  # without a budget, the storage might grow
            return self._open_row(x)
        return float(self._predict_rows(self._check_rows(np.reshape(x, (1, -1))))[0])

    def _open_row(self, x: Row) -> float:
        """Return the prediction for one row. Opening a round without closing it does not change f."""
        return float(self._learners[0].open_round(x))

    def _predict_rows(self, X: Matrix) -> Floats:
        """Return the predictions for rows that were checked."""

        def predicted(rows: Matrix) -> Floats:
            return self._decide(self._learners[0], rows)

        return self._finite_values(X, predicted, "the prediction for")

    # ------------------------------------------------------------------ theorems

    def regression_theorems(self) -> list[RegressionTheorem]:
        """Return the theorems that apply to this fitted learner, the default first, for `certify`."""
        return []


def checked_target(y: float) -> float:
    """Return a target as a float, after checking it."""
    try:
        target = float(y)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the target must be a number; got {y!r}") from None
    if not isfinite(target):
        raise ValueError(f"the target must be finite; got {target}")
    if not abs(target) < LARGEST_TARGET:
        raise ValueError(f"the target is {target:g}, which is too large; scale the targets")
    return target
