"""`OnlineClassifier`: scikit-learn's interface for learners that play rounds.

Four classes build on each other. Each adds one responsibility:

`FittedEstimator`   the fitted state, its checks, pickling
`RoundPlayer`       batches and single rounds
`ClassAdmission`    new classes and new features
`OnlineClassifier`  the public methods
"""

from __future__ import annotations

from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from budgetron._base.batches import predicted_codes, refuse_unknown
from budgetron._base.class_admission import ClassAdmission
from budgetron._base.progress import verbose_call
from budgetron._base.sizes import Prepare, as_it_is
from budgetron._base.theorems import DeclaredTheorem
from budgetron._base.trace import Trace
from budgetron._core.kernel import Kernel
from budgetron._util.types import Floats, Labels, Matrix, Rows

__all__ = ["OnlineClassifier"]


class OnlineClassifier(ClassifierMixin, ClassAdmission):
    """The base of all learners.

    A subclass defines how its hypotheses are made (`_make`, `_new_hypothesis`, `_restore`).
    """

    # For how many more rounds, as a share of those so far, `decision_function` hardly changes; 0 if unknown.
    _stale_share: ClassVar[float] = 0.0

    # ------------------------------------------------------------------ memory

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        """Return about the bytes of this learner with this many outputs, before it has learned any rows.

        For a learner without a budget these are the bytes at the start. `prepare` is called with each
        hypothesis that is made for the estimate.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _bytes_needed")

    # ------------------------------------------------------------------ theorems

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        """Return the theorems that apply to this fitted learner, the default first.

        `radius` is the largest sqrt(k(x, x)) of the stream. A learner without theorems returns none.
        """
        return []

    def _competitor_kernel(self) -> Kernel:
        """Return the kernel whose space contains the competitors of the theorems."""
        return Kernel("linear")

    # ------------------------------------------------------------------ learning

    # Unknown keywords are accepted only to raise an error: Python's own message would not mention weights.
    def fit(self, X: Rows, y: ArrayLike, *, verbose: bool = False, **unknown: Never) -> Self:
        """Forget everything, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "fit", unknown)
        with verbose_call(verbose):
            return self._fit(X, y)

    def _fit(self, X: Rows, y: ArrayLike, weights: ArrayLike | None = None) -> Self:
        with self._unchanged_on_error():
            self._forget()
            self._learn(X, y, classes_from_y=True, weights=weights)
        return self

    def partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        admit: bool = False,
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
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call unless `admit`.
        admit : bool, default=False
            Whether unknown labels become classes. The function of a new class is 0 in the round where it is
            first seen. When a third class is added, the function that separated the first two becomes one
            for each of them, with opposite signs. The first call needs two labels, or `classes`.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with verbose_call(verbose):
            return self._partial_fit(X, y, classes, admit)

    def _partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None,
        admit: bool,
        weights: ArrayLike | None = None,
    ) -> Self:
        with self._unchanged_on_error():
            if admit:
                self._learn_and_admit(X, y, classes, weights)
            else:
                self._learn(X, y, classes, weights=weights)
        return self

    def progressive_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        ledger: bool = False,
        verbose: bool = False,
    ) -> Trace:
        """Do what `partial_fit` does, and return the trace.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur. In the first call the labels of `y` if not given.
        ledger : bool, default=False
            Whether to record the quantities of the algorithm's proof.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        Trace
        """
        with self._unchanged_on_error(), verbose_call(verbose):
            trace = self._learn(X, y, classes, classes_from_y=True, trace=True, ledger=ledger)
            assert trace is not None
            return trace

    # ------------------------------------------------------------------ prediction

    def decision_function(self, X: Rows) -> Floats:
        """Return f(x) for each row; a value above 0 predicts the second of two classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        check_is_fitted(self)
        margins = self._finite_values(self._check_rows(X), self._margins, "f(x) of")
        return margins[0] if len(margins) == 1 else margins.T.copy()

    def _margins(self, X: Matrix) -> Floats:
        """Return f(x) of each output for rows that were checked, of shape (n_outputs, n_samples)."""
        values = [self._decide(hypothesis, X) for hypothesis in self._learners]
        return values[0].T if values[0].ndim == 2 else np.array(values)

    def _next_margins(self, X: Matrix) -> Floats:
        """Return the margins that each row would have as the next row of the stream."""
        return self._margins(X)

    def predict(self, X: Rows) -> Labels:
        """Return the predicted class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        codes = predicted_codes(self.decision_function(X))
        labels: Labels = self.classes_[codes]
        return labels

    @property
    def predict_proba(self) -> Any:
        """Not available: `CalibratedClassifier` provides probabilities."""
        raise AttributeError(
            f"{type(self).__name__} does not provide probabilities. CalibratedClassifier(learner) learns "
            "exactly as the learner does, and has predict_proba"
        )
