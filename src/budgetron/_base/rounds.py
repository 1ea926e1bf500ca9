"""Rounds of classification: check a batch, play it with every hypothesis, and return its trace."""

from __future__ import annotations

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
)
from budgetron._base.class_state import ClassState
from budgetron._base.large_values import refuse_large_row
from budgetron._base.row_player import restore_hypotheses_on_error
from budgetron._base.trace import Trace
from budgetron._util.types import Floats, Label, Labels, Matrix, Row, Rows

__all__ = ["RoundPlayer"]


class RoundPlayer(ClassState):
    """A classifier that plays rounds, in batches and one by one."""

    # ------------------------------------------------------------------ hooks of subclasses

    def _importances(self, X: Matrix, labels: Labels, weights: ArrayLike | None) -> Floats | None:
        """Return the weights of the rows of a batch; None if all are 1."""
        return None

    def _importance(self, label: Label) -> float:
        """Return the weight of a row of this class."""
        return 1.0

    def _check_class_weight(self, classes: Labels) -> None:
        """Refuse weights of labels that are not classes."""

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
            self._play_parts(batch)
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

    def _check_labelled_rows(self, X: Rows, y: ArrayLike) -> tuple[Matrix, Labels]:
        rows, labels = self._validated(X, label_array(y))
        return rows, labels

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
