"""Sample weights and class weights, for the learners that support them."""

from __future__ import annotations

from numbers import Real
from typing import Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from budgetron._base.batches import refuse_unknown
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.progress import verbose_call
from budgetron._base.sample_weights import checked_weights, refuse_zero_weights
from budgetron._util.types import Floats, Label, Labels, Matrix, Rows

__all__ = ["CLASS_WEIGHT", "WeightedClassifier"]

# The constraint of the parameter.
CLASS_WEIGHT: dict[str, list[Any]] = {"class_weight": [dict, None]}


class WeightedClassifier(OnlineClassifier):
    """A learner with weights: the loss of a row is multiplied by its weight.

    So a learner with a parameter C learns a row of weight w with C w, and a second-order learner with r / w.
    """

    class_weight: dict[Label, float] | None

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
        with verbose_call(verbose):
            return self._fit(X, y, sample_weight)

    def partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        admit: bool = False,
        verbose: bool = False,
        **unknown: Never,
    ) -> Self:
        """Play one round per row, in the given order, and continue from the current state.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call unless `admit`.
        sample_weight : array-like of shape (n_samples,), optional
            The loss of each row is multiplied by its weight. A row of weight 0 is predicted and not learned.
        admit : bool, default=False
            Whether unknown labels become classes.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with verbose_call(verbose):
            return self._partial_fit(X, y, classes, admit, sample_weight)

    def _importances(self, X: Matrix, labels: Labels, weights: ArrayLike | None) -> Floats | None:
        if weights is None and self.class_weight is None:
            return None
        given = checked_weights(weights, X.shape[0])
        # Not by scikit-learn's function, which requires every weighted class to occur in the batch.
        of_class = self.class_weight or {}
        importances: Floats = given * [of_class.get(label, 1.0) for label in labels.tolist()]
        return importances

    def _importance(self, label: Label) -> float:
        weights = self._started_with["class_weight"]  # checked at the start, and unchanged since
        return 1.0 if weights is None else float(weights.get(label, 1.0))

    def _check_class_weight(self, classes: Labels) -> None:
        known = classes.tolist()
        unknown = [label for label in self.class_weight or {} if label not in known]
        if unknown:
            wrong = ", ".join(map(repr, unknown))
            verb = "is not a class" if len(unknown) == 1 else "are not classes"
            raise ValueError(f"class_weight must have only the classes {known} as keys; {wrong} {verb}")

    def _validate_params(self) -> None:
        super()._validate_params()
        for label, weight in (self.class_weight or {}).items():
            if not isinstance(weight, Real) or not 0.0 <= weight < np.inf:
                raise ValueError(
                    f"class_weight must give each class a finite number that is not negative; got {weight!r} "
                    f"for {label!r}"
                )
