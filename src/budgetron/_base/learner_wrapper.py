"""The base of classifiers around another learner: averages, selection of past hypotheses, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from budgetron._base.batches import Batch
from budgetron._base.class_state import ClassState
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.large_values import LargeValueError
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import coefficients, intercepts
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.protocol import Hypothesis, HypothesisWithHistory
from budgetron._base.sizes import Prepare, as_it_is, with_params
from budgetron._base.trace import Trace
from budgetron._base.wrapper import Wrapper
from budgetron._util.checks import State, require
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.sparse import check_sparse
from budgetron._util.types import Codes, Floats, Label, Labels, Matrix, Row, Rows

__all__ = ["LearnerWrapper"]


class LearnerWrapper(Wrapper, OnlineClassifier):
    """A classifier over the hypotheses of another learner; it learns exactly as that one does."""

    _predicts_as_it_learns: ClassVar[bool] = False
    _learned_names: ClassVar[frozenset[str]] = (ClassState._learned_names - {"_learners"}) | {"learner_"}
    _derived_names: ClassVar[frozenset[str]] = ClassState._derived_names | Wrapper._derived_names
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learner": [object],  # checked below, with a message that says what to do
    }

    learner: OnlineClassifier
    learner_: OnlineClassifier
    _learners: Sequence[HypothesisWithHistory]

    # ------------------------------------------------------------------ hooks of subclasses

    # Whether the hypotheses must be able to keep their past.
    _needs_history: ClassVar[bool] = True

    def _prepare(self, hypothesis: HypothesisWithHistory) -> None:
        """Make a new hypothesis keep what the wrapper needs of its past."""

    def _count(self, X: Matrix, codes: Codes, margins: Floats, start: int) -> None:
        """Update what the wrapper counts, after rounds from `start` on were played.

        `margins` are of shape (n_rounds,) or (n_rounds, n_classes).
        """
        raise NotImplementedError

    def _weights(self, hypothesis: Any) -> Floats:
        """Return the weights of one linear hypothesis, or of all of its outputs, as it predicts here."""
        raise NotImplementedError

    # ------------------------------------------------------------------ the learner inside

    def _validate_params(self) -> None:
        super()._validate_params()
        if not isinstance(self.learner, OnlineClassifier) or isinstance(self.learner, LearnerWrapper):
            raise ValueError(
                f"the 'learner' parameter of {type(self).__name__} must be a kernel or linear learner of "
                f"Budgetron, like linear.AROW(); put pipelines around {type(self).__name__}. "
                f"Got {self.learner!r}"
            )
        if self._needs_history and not isinstance(self.learner, KernelClassifier | LinearClassifier):
            raise ValueError(
                f"{type(self.learner).__name__} has no average and no record of its hypotheses; "
                f"use {type(self).__name__} with a single kernel or linear learner"
            )
        self.learner._validate_params()

    def _make(self, X: Matrix, outputs: int) -> Sequence[Hypothesis]:
        learner = self._clone_of(self.learner)
        learner._start(X, self.classes_)
        for hypothesis in cast(Sequence[HypothesisWithHistory], learner._learners):
            self._prepare(hypothesis)
        self.learner_ = learner
        hypotheses: Sequence[Hypothesis] = learner._learners
        return hypotheses

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        return self.learner._bytes_needed(X, outputs, with_params(self)._prepare)

    def _is_joint(self) -> bool:
        return self.learner._is_joint()

    def _share_hypotheses(self) -> None:
        """Use the hypotheses of `learner_`, after it has replaced them."""
        self._learners = cast(Sequence[HypothesisWithHistory], self.learner_._learners)

    def _checked_hypotheses(self, found: State) -> Sequence[Hypothesis]:
        learner = found["learner_"]
        kinds = KernelClassifier | LinearClassifier if self._needs_history else OnlineClassifier
        require(
            isinstance(learner, kinds) and not isinstance(learner, LearnerWrapper),
            "learner_ should be a learner",
        )
        self._check_learner(found)
        require(np.array_equal(learner.classes_, found["classes_"]), "learner_ should have the same classes")
        hypotheses: Sequence[Hypothesis] = learner._learners
        return hypotheses

    # ------------------------------------------------------------------ rounds

    def _importances(self, X: Matrix, labels: Labels, weights: ArrayLike | None) -> Floats | None:
        return self.learner._importances(X, labels, weights)

    def _importance(self, label: Label) -> float:
        return self.learner_._importance(label)

    def _refuse_large(self, X: Matrix, square: float) -> None:
        self.learner._refuse_large(X, square)

    def _check_class_weight(self, classes: Labels) -> None:
        self.learner._check_class_weight(classes)

    def _admit(self, label: Label) -> None:
        raise ValueError(
            f"{type(self).__name__} cannot add the class {label!r}: its hypotheses cover all rounds from the "
            "first one; give all classes in the first call"
        )

    def _add_features(self, d: int) -> None:
        self.learner_._add_features(d)
        self._share_hypotheses()
        self.n_features_in_ = d

    def _rounds(self, batch: Batch) -> None:
        self.learner_._rounds(batch)

    def _learn(self, X: Rows, y: ArrayLike, *args: Any, **options: Any) -> Trace | None:
        with defer_interrupts():  # so that the wrapper has counted every round that was learned
            return super()._learn(X, y, *args, **options | {"trace": True})

    def _observe(self, batch: Batch, start: int) -> None:
        assert batch.margins is not None
        self.learner_._mistakes = self._mistakes
        margins = batch.margins[0] if len(batch.margins) == 1 else batch.margins.T
        self._count(batch.X, batch.codes, margins, start)

    def play(self, x: Row, y: Label, classes: ArrayLike | None = None) -> float | Floats:
        if not self.__sklearn_is_fitted__():
            return super().play(x, y, classes)  # which calls this method again, with a fitted model
        start = self.rounds_
        if issparse(x):
            check_sparse(x)
            if x.shape[:-1] in ((), (1,)):  # converted before the round, because it may fail
                try:
                    x = self._check_rows(x.reshape((1, -1)).tocsr())
                except LargeValueError as error:
                    raise error.without_row() from None
        margins = super().play(x, y, classes)
        self.learner_._mistakes = self._mistakes
        row = x if issparse(x) else np.reshape(x, (1, -1)).astype(self._learners[0].dtype)
        self._count(row, np.array([self._codes[y]]), np.asarray(margins)[None], start)
        return margins

    play.__doc__ = OnlineClassifier.play.__doc__

    def _fitted(self) -> Sequence[HypothesisWithHistory]:
        super()._fitted()
        return self._learners

    @property
    def coef_(self) -> Floats:
        """Weights of shape (n_outputs, n_features), of a linear learner."""
        hypotheses = self._fitted()
        if not isinstance(self.learner_, LinearClassifier):
            raise AttributeError(f"coef_: {type(self.learner_).__name__} is not a linear learner")
        return coefficients(hypotheses, self._weights)

    @property
    def intercept_(self) -> Floats:
        """Intercepts of shape (n_outputs,), of a linear learner; zeros without `fit_intercept`."""
        hypotheses = self._fitted()
        if not isinstance(self.learner_, LinearClassifier):
            raise AttributeError(f"intercept_: {type(self.learner_).__name__} is not a linear learner")
        return intercepts(hypotheses, self._weights)
