"""Losses, forgetting and probabilities of the second-order learners."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import special
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.weighted_classifier import CLASS_WEIGHT, WeightedClassifier
from budgetron._core.losses import LOSSES
from budgetron._util.checks import State, require
from budgetron._util.types import Floats

__all__ = ["LOSS_PARAMETERS", "LossClassifier"]

# The constraints of the parameters.
LOSS_PARAMETERS: dict[str, list[Any]] = CLASS_WEIGHT | {
    "loss": [StrOptions({"auto", *LOSSES})],
    "prior": [Interval(Real, 0.0, None, closed="neither"), None],
    "forget": [Interval(Real, 0.0, 1.0, closed="right")],
}

# Variance of a coordinate before the first update, unless it is given.
PRIORS = {"hinge": 1.0, "logistic": 100.0, "squared": 1.0}


class LossClassifier(WeightedClassifier):
    """A learner with one Gaussian hypothesis for all classes and a choice of losses.

    Subclasses have `loss_` among their learned attributes. It is set when the hypothesis is made or restored.
    """

    loss: str
    prior: float | None
    forget: float
    loss_: str

    def _choose_loss(self, outputs: int) -> None:
        """Set the loss at the first call."""
        self.loss_ = self._loss_for(outputs)

    def _loss_for(self, outputs: int) -> str:
        """Return the loss of a new hypothesis with this many outputs."""
        if self.loss != "auto":
            return self.loss
        return "hinge" if outputs == 1 else "logistic"

    def _restore_loss(self, found: State) -> None:
        """Set the loss of a state, after checking it."""
        loss = found["loss_"]
        require(
            isinstance(loss, str) and (loss in LOSSES if self.loss == "auto" else loss == self.loss),
            "loss_ should be the loss of the parameters",
        )
        self.loss_ = loss

    def _prior_for(self, loss: str) -> float:
        """Return the variance of a coordinate before the first update."""
        return float(PRIORS[loss] if self.prior is None else self.prior)

    @property
    def predict_proba(self) -> Any:
        """Return the probability of each class for each row; with the logistic loss only.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        self._require_probabilities()
        return lambda X: self.probabilities_from_margins(self.decision_function(X))

    def probabilities_from_margins(self, margins: Floats) -> Floats:
        """Return the probability of each class, given margins of shape (n,) or (n, n_classes)."""
        self._require_probabilities()
        if margins.ndim == 1:
            return np.column_stack([special.expit(-margins), special.expit(margins)])
        probabilities: Floats = special.softmax(margins, axis=1)
        return probabilities

    def _require_probabilities(self) -> None:
        """Raise an error unless scores are log-odds."""
        if getattr(self, "loss_", self.loss) != "logistic":
            raise AttributeError(
                f"{type(self).__name__} has probabilities with the logistic loss only; use "
                'loss="logistic", or CalibratedClassifier(learner)'
            )
