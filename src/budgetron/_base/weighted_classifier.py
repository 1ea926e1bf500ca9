"""Weights of rows and classes, for the learners that have a meaning for them."""

from __future__ import annotations

from numbers import Real
from typing import Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from budgetron._base.batches import Rows, refuse_unknown
from budgetron._base.online_classifier import OnlineClassifier

__all__ = ["CLASS_WEIGHT", "WeightedClassifier"]

# What the parameter may be.
CLASS_WEIGHT: dict[str, list[Any]] = {"class_weight": [dict, None]}


class WeightedClassifier(OnlineClassifier):
    """A learner whose C may differ from row to row: a row of weight w is learned with C w."""

    class_weight: dict[Any, float] | None

    def fit(self, X: Rows, y: ArrayLike, sample_weight: ArrayLike | None = None, **unknown: Never) -> Self:
        """Forget everything, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
            Each row's C is the parameter times its weight; 0 is a row that is predicted and not learned.

        Returns
        -------
        self
        """
        refuse_unknown(self, "fit", unknown)
        with self._unchanged_on_error():
            self._forget()
            self._learn(X, y, classes_from_y=True, weights=sample_weight)
        return self

    def partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        admit: bool = False,
        **unknown: Never,
    ) -> Self:
        """Play one round per row, in the given order, going on from where the model is.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call unless `admit`.
        sample_weight : array-like of shape (n_samples,), optional
            Each row's C is the parameter times its weight; 0 is a row that is predicted and not learned.
        admit : bool, default=False
            Whether a label that is no class yet becomes one.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with self._unchanged_on_error():
            if admit:
                self._learn_and_admit(X, y, classes, sample_weight)
            else:
                self._learn(X, y, classes, weights=sample_weight)
        return self

    def _importances(self, X: Any, labels: NDArray[Any], weights: Any) -> NDArray[np.float64] | None:
        if weights is None and self.class_weight is None:
            return None
        given = _check_sample_weight(weights, X, dtype=np.float64, ensure_non_negative=True)
        # Not by scikit-learn's function, which asks a batch to have the classes that there are weights of.
        of_class = self.class_weight or {}
        importances: NDArray[np.float64] = given * [of_class.get(label, 1.0) for label in labels.tolist()]
        return importances

    def _importance(self, label: Any) -> float:
        weights = self._started_with["class_weight"]  # which was checked, and has not changed
        return 1.0 if weights is None else float(weights.get(label, 1.0))

    def _check_class_weight(self, classes: NDArray[Any]) -> None:
        known = classes.tolist()
        unknown = [label for label in self.class_weight or {} if label not in known]
        if unknown:
            raise ValueError(
                f"class_weight must be about the classes {known}; "
                f"it has {', '.join(map(repr, unknown))}, which {'is' if len(unknown) == 1 else 'are'} none"
            )

    def _validate_params(self) -> None:
        super()._validate_params()
        for label, weight in (self.class_weight or {}).items():
            if not isinstance(weight, Real) or not 0.0 <= weight < np.inf:
                raise ValueError(
                    f"class_weight must give each class a finite number that is not negative; got {weight!r} "
                    f"for {label!r}"
                )
