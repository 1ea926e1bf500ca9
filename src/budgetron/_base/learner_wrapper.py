"""Classifiers over the hypotheses of another: what converts them, and what gives them probabilities."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.utils.validation import column_or_1d

from budgetron._base.batches import Batch, Rows, encode
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.trace import Trace
from budgetron._util.interrupts import defer_interrupts

__all__ = ["LearnerWrapper"]


class LearnerWrapper(OnlineClassifier):
    """A classifier over the hypotheses of another; it learns exactly as that one does."""

    _predicts_as_it_learns = False
    _counts_rows = False  # whether `_count` looks at the rows
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learner": [object],  # checked below, with a word on what to do
    }

    learner: OnlineClassifier
    learner_: OnlineClassifier

    def _keep(self, hypothesis: Any) -> None:
        """Tell a new hypothesis what it must keep of its past."""
        raise NotImplementedError

    def _validate_params(self) -> None:
        super()._validate_params()
        if not isinstance(self.learner, OnlineClassifier) or isinstance(self.learner, LearnerWrapper):
            raise ValueError(
                f"the 'learner' parameter of {type(self).__name__} must be a kernel or linear learner of "
                f"Budgetron, like linear.AROW(); put pipelines around {type(self).__name__}. "
                f"Got {self.learner!r}"
            )
        self.learner._validate_params()

    def _make(self, X: Any, outputs: int) -> Any:
        learner = clone(self.learner)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(learner, name, getattr(self, name))
        learner._start(X, self.classes_)
        for hypothesis in learner._learners:
            self._keep(hypothesis)
        self.learner_ = learner
        return learner._learners

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_learners", None)  # those of `learner_`
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "learner_" in state:
            self._learners = self.learner_._learners

    def _importances(self, X: Any, labels: NDArray[Any], weights: Any) -> NDArray[np.float64] | None:
        return self.learner._importances(X, labels, weights)

    def _importance(self, label: Any) -> float:
        return self.learner_._importance(label)

    def _check_class_weight(self, classes: NDArray[Any]) -> None:
        self.learner._check_class_weight(classes)

    def _admit(self, label: Any) -> None:
        raise ValueError(
            f"{type(self).__name__} cannot admit the class {label!r}: its hypotheses speak for all rounds "
            "from the first; give all classes in the first call"
        )

    def _rounds(self, batch: Batch) -> None:
        self.learner_._rounds(batch)

    def _learn(self, X: Any, y: Any, *args: Any, **options: Any) -> Trace | None:
        start = self.rounds_ if self.__sklearn_is_fitted__() else 0
        with defer_interrupts():
            trace = super()._learn(X, y, *args, **options | {"trace": True})
            assert trace is not None
            self.learner_._mistakes = self._mistakes
            rows = self._check_rows(X) if self._counts_rows else None
            self._count(rows, encode(column_or_1d(y), self.classes_), trace.margins, start)
        return trace

    def play(self, x: Rows, y: Any, classes: ArrayLike | None = None) -> float | NDArray[np.float64]:
        if not self.__sklearn_is_fitted__():
            return super().play(x, y, classes)  # which comes back here, with a model
        start = self.rounds_
        margins = super().play(x, y, classes)
        self.learner_._mistakes = self._mistakes
        row = csr_array(np.reshape(x.toarray(), (1, -1))) if issparse(x) else np.reshape(x, (1, -1))
        row = row.astype(self._learners[0].row.dtype)
        self._count(row, np.array([self._codes[y]]), np.asarray(margins)[None], start)
        return margins

    play.__doc__ = OnlineClassifier.play.__doc__

    def _count(self, X: Any, codes: NDArray[np.intp], margins: NDArray[np.float64], start: int) -> None:
        """Take account of rounds from `start` on that were just played."""
        raise NotImplementedError

    def _weights(self, hypothesis: Any) -> NDArray[np.float64]:
        """The weights of one linear hypothesis as it predicts here."""
        raise NotImplementedError

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of shape (n_outputs, n_features), of a linear learner."""
        learners = self._fitted()
        if not isinstance(self.learner_, LinearClassifier):
            raise AttributeError(f"coef_: {type(self.learner_).__name__} is not a linear learner")
        return np.array([self._weights(hypothesis) for hypothesis in learners])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Zeros, of a linear learner: the hyperplanes pass through the origin."""
        return np.zeros(len(self.coef_))
