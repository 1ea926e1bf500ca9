"""Rounds: check a batch, play it with every hypothesis, and return its trace."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets

from budgetron._base.batches import (
    Batch,
    are_integers,
    check_classes,
    check_same_classes,
    encode,
    label_array,
    largest_square,
    ledger_columns,
    predicted_codes,
    signed_margin,
    validated,
)
from budgetron._base.fitted_estimator import FittedEstimator
from budgetron._base.large_values import name_large_value, refuse_infinity, refuse_large_row
from budgetron._base.progress import shown
from budgetron._base.protocol import Hypothesis
from budgetron._base.trace import Trace
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.numbers import largest
from budgetron._util.sparse import check_sparse
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Label, Labels, Matrix, Row, Rows

__all__ = ["RoundPlayer", "batch_may_fail", "restore_hypotheses_on_error"]

# The types in which the core computes.
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class RoundPlayer(FittedEstimator):
    """An estimator that plays rounds, in batches and one by one."""

    # ------------------------------------------------------------------ hooks of subclasses

    def _importances(self, X: Matrix, labels: Labels, weights: ArrayLike | None) -> Floats | None:
        """Return the weights of the rows of a batch; None if all are 1."""
        return None

    def _importance(self, label: Label) -> float:
        """Return the weight of a row of this class."""
        return 1.0

    def _refuse_large(self, X: Matrix, square: float) -> None:
        """Raise `ValueError` if a value is too large to learn; squared norms of rows are at most `square`."""

    def _check_class_weight(self, classes: Labels) -> None:
        """Refuse weights of labels that are not classes."""

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

    def _observe(self, batch: Batch, start: int) -> None:
        """Called after the rounds of a batch, from round `start` on, were played."""

    # ------------------------------------------------------------------ batches

    def _learn(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        classes_from_y: bool = False,
        trace: bool = False,
        ledger: bool = False,
        weights: ArrayLike | None = None,
        admit: bool = False,
    ) -> Trace | None:
        batch = self._open_batch(
            X,
            y,
            classes,
            classes_from_y=classes_from_y,
            trace=trace,
            ledger=ledger,
            weights=weights,
            admit=admit,
        )
        start = self.rounds_
        try:
            with (
                name_large_value(batch.X),
                restore_hypotheses_on_error(self._learners, batch_may_fail(self._learners, batch)),
                one_thread(),
            ):
                for part in shown(self._parts(batch), len(batch.codes)):
                    with defer_interrupts():  # so that all hypotheses have played the same rounds
                        self._rounds(part)
        except KeyboardInterrupt:  # the rounds before it count
            self._close_batch(batch.part(slice(self.rounds_ - start)))
            raise
        return self._close_batch(batch)

    def _open_batch(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        classes_from_y: bool = False,
        trace: bool = True,
        ledger: bool = False,
        weights: ArrayLike | None = None,
        admit: bool = False,
    ) -> Batch:
        """Check the rows and labels of a batch, and make the hypotheses if it is the first."""
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        rows, labels = self._check_labelled_rows(X, y)
        if first and not are_integers(labels):  # integers are classes; later labels are compared
            check_classification_targets(labels)
        if first and classes is None:
            if not classes_from_y:
                raise ValueError("classes must be given in the first call of partial_fit")
            classes = labels
        known = check_classes(self, classes) if first else self.classes_
        if not first and classes is not None:
            check_same_classes(self, classes, known)
        codes = encode(labels, known)
        square = largest_square(rows)
        self._refuse_large(rows, square)
        importances = self._importances(rows, labels, weights)
        if first:
            if not admit:  # otherwise other classes may follow
                self._check_class_weight(known)
            self._start(rows, known)

        outputs, shape = self._n_outputs, (len(self._learners), len(codes))
        if self._is_joint() and outputs > 1:
            labels_of = [codes.astype(np.float64)]
            margins = np.empty((len(codes), outputs)).T  # in memory row by row, as the hypothesis fills it
        else:
            labels_of = [np.where(codes == c, 1.0, -1.0) for c in (range(outputs) if outputs > 1 else [1])]
            margins = np.empty(shape)
        return Batch(
            X=rows,
            square=square,
            codes=codes,
            labels=labels_of,
            margins=margins if trace or len(self._learners) > 1 else None,
            sizes=np.empty(shape, np.int64) if trace else None,
            ledger=np.empty((*shape, len(self._learners[0].ledger))) if ledger else None,
            importances=importances,
        )

    def _close_batch(self, batch: Batch) -> Trace | None:
        """Count the mistakes of a batch that was played; return its trace, if one was requested."""
        if batch.margins is None:
            return None
        multiclass = self._n_outputs > 1
        margins = batch.margins.T if multiclass else batch.margins[0]
        mistakes = signed_margin(margins, batch.codes, multiclass=multiclass) <= 0.0
        self._mistakes += int(mistakes.sum()) if multiclass else 0
        self._observe(batch, self.rounds_ - len(batch.codes))
        if batch.sizes is None:
            return None
        names = self._learners[0].ledger
        return Trace(
            margins=margins.copy() if multiclass else margins,
            mistakes=mistakes,
            support_sizes=batch.sizes.sum(axis=0),
            codes=predicted_codes(margins),
            classes=self.classes_,
            ledger=None if batch.ledger is None else ledger_columns(names, batch.ledger),
        )

    # ------------------------------------------------------------------ rows

    def _check_rows(self, X: Rows) -> Matrix:
        """Return the rows as the hypotheses need them, after checking them."""
        return self._validated(X)

    def _check_labelled_rows(self, X: Rows, y: ArrayLike) -> tuple[Matrix, Labels]:
        rows, labels = self._validated(X, label_array(y))
        return rows, labels

    def _validated(self, X: Rows, y: ArrayLike | Literal["no_validation"] = "no_validation") -> Any:
        first = not self.__sklearn_is_fitted__()
        dtype = (np.float64, np.float32) if first else self._learners[0].dtype
        converts = not first and getattr(X, "dtype", None) != dtype
        try:
            # NumPy would warn of values that are too large for the type; an error says more.
            with np.errstate(over="ignore") if converts else nullcontext():
                return validated(self, X, y, dtype=dtype, order="C", reset=first)
        except (ValueError, OverflowError):
            # scikit-learn does not say where, and not whether a value is infinite or only too large.
            refuse_infinity(X, _type_of(X) if first else self._learners[0].dtype)
            raise

    # ------------------------------------------------------------------ single rounds

    def play(self, x: Row, y: Label, classes: ArrayLike | None = None) -> float | Floats:
        """Play one round: predict x, then see y and learn.

        Much faster than `partial_fit` on one row. Only shape, finiteness and label are checked.

        Parameters
        ----------
        x : array-like of shape (n_features,), or one sparse row
        y : label
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed if this is the first call.

        Returns
        -------
        float or ndarray of shape (n_classes,)
            The margin before y was seen; with more than two classes, one for each.
        """
        try:
            hypotheses, code = self._learners, self._codes[y]
        except (AttributeError, KeyError, TypeError):
            if not self.__sklearn_is_fitted__():
                return self._play_first(x, y, classes)
            got = y.item() if isinstance(y, np.generic) else y
            raise ValueError(f"y must be one of the classes {self.classes_.tolist()}; got {got!r}") from None
        if classes is not None:
            check_same_classes(self, classes, self.classes_)
        importance = self._importance(y)
        try:
            if len(hypotheses) == 1:
                label = float(code) if len(self._codes) > 2 else 1.0 if code else -1.0
                return hypotheses[0].play(x, label, importance)
            margins = np.array([hypothesis.open_round(x) for hypothesis in hypotheses])
            may_fail = any(hypothesis.may_fail() for hypothesis in hypotheses)
            with restore_hypotheses_on_error(hypotheses, may_fail):
                for i, hypothesis in enumerate(hypotheses):
                    hypothesis.close_round(1.0 if i == code else -1.0, importance)
        except ValueError as error:
            refuse_large_row(x, hypotheses[0].dtype, error)
            raise
        self._mistakes += int(signed_margin(margins[None, :], np.array([code]), multiclass=True)[0] <= 0.0)
        return margins

    def _play_first(self, x: Row, y: Label, classes: ArrayLike | None) -> float | Floats:
        if classes is None:
            raise ValueError("classes must be given in the first call of play")
        with self._unchanged_on_error():
            self._validate_params()
            checked = self._first_row(x)
            known = check_classes(self, classes)
            self._check_class_weight(known)
            self._start(checked, known)
            return self.play(checked if issparse(checked) else checked[0], y)

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
