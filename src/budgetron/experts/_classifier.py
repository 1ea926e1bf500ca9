"""Whole learners as experts."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from numbers import Real
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from budgetron._base.access import predicts_as_it_learns
from budgetron._base.batches import check_classes, encode, predicted_codes, refuse_unknown
from budgetron._base.fitted_estimator import OPTIONAL, check_rows_state, require_no_arrays
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.parameters import CheckedEstimator
from budgetron._base.trace import Trace
from budgetron._base.types import Rows
from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_int,
    require_names,
)
from budgetron._util.restore import restore_on_error
from budgetron.experts._base import ExpertAlgorithm
from budgetron.experts._exponential import ExponentialWeights
from budgetron.experts._majority import RandomizedWeightedMajority, WeightedMajority

Codes = NDArray[np.intp]


# Attributes of a fitted classifier.
LEARNED = frozenset(
    {"classes_", "n_features_in_", "started_with_", "learners_", "rounds_", "mistakes_"}
    | {"learner_mistakes_", "algorithms_"}
)


class ExpertClassifier(MetaEstimatorMixin, ClassifierMixin, CheckedEstimator):
    """Several learners at once, combined by an expert algorithm.

    For when it is not known beforehand which learner, kernel width or budget suits the
    stream: each learns every round by its own rule, and the combination makes hardly more
    mistakes than the best of them. It costs as much as all of them together.

    Parameters
    ----------
    learners : list of classifiers
        Budgetron's, or any with `partial_fit` and `decision_function`; the latter learn row by
        row, in order to be asked before each. They are cloned.
    combine : {"exponential", "majority", "randomized"}, default="exponential"
        The expert algorithm over the learners' yes-or-no predictions: `ExponentialWeights`,
        `WeightedMajority` or `RandomizedWeightedMajority`.
    eta : float, "doubling" or "anytime", default="anytime"
        Rate of "exponential".
    beta : float, default=0.5
        What a wrong learner keeps of its weight, in [0, 1) for "majority" and [1/2, 1) for
        "randomized".
    random_state : int, RandomState or None, default=None
        Seed of the draws of "randomized".

    Attributes
    ----------
    learners_ : list of classifiers
        The learners as they are now.
    learner_mistakes_ : ndarray of shape (n_learners,)
        Rounds in which each predicted the wrong class.
    algorithms_ : list of expert algorithms
        One, or one for each class if there are more than two; they hold weights and losses.

    Notes
    -----
    Regret is counted in the absolute loss of the weighted vote against 0 or 1, which for
    "randomized" is the expected number of mistakes, and is bounded by the algorithm's theorem
    (004 Theorems 8.3, 8.4, 8.6, 8.7). `predict` takes the weighted majority, also for "randomized";
    the trace of `progressive_fit` has what was really predicted. With more than two classes
    each class has its own algorithm over who predicted that class.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import Forgetron
    >>> from budgetron.experts import ExpertClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ExpertClassifier([Forgetron(gamma=gamma) for gamma in (0.0001, 0.001, 0.01)])
    >>> trace = model.progressive_fit(X, y % 2)
    >>> model.best_learner_, model.learner_mistakes_.tolist(), int(trace.mistakes.sum())
    (2, [355, 93, 82], 90)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learners": [list, tuple],
        "combine": [StrOptions({"exponential", "majority", "randomized"})],
        "eta": [StrOptions({"doubling", "anytime"}), Interval(Real, 0.0, None, closed="neither")],
        "beta": [Interval(Real, 0.0, 1.0, closed="left")],
        "random_state": ["random_state"],
    }

    classes_: NDArray[Any]
    learners_: list[Any]
    algorithms_: list[ExpertAlgorithm]
    learner_mistakes_: NDArray[np.int64]
    rounds_: int
    mistakes_: int

    def __init__(
        self,
        learners: Sequence[Any],
        combine: str = "exponential",
        *,
        eta: float | str = "anytime",
        beta: float = 0.5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.learners = learners
        self.combine = combine
        self.eta = eta
        self.beta = beta
        self.random_state = random_state

    # ------------------------------------------------------------------ learning

    def fit(self, X: Rows, y: ArrayLike, **unknown: Never) -> Self:
        """Forget everything, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        refuse_unknown(self, "fit", unknown)
        with self._unchanged_on_error():
            for name in [name for name in self.__dict__ if name.endswith("_")]:
                del self.__dict__[name]
            self._learn(X, y, None, classes_from_y=True)
        return self

    def partial_fit(self, X: Rows, y: ArrayLike, classes: ArrayLike | None = None, **unknown: Never) -> Self:
        """Play one round per row, in the given order, going on from where the model is.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with self._unchanged_on_error():
            self._learn(X, y, classes, classes_from_y=False)
        return self

    def progressive_fit(self, X: Rows, y: ArrayLike, classes: ArrayLike | None = None) -> Trace:
        """Do what `partial_fit` does, and return the trace.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur. In the first call the labels of `y` if not given.

        Returns
        -------
        Trace
            Its margins are the weighted votes, from -1 to 1.
        """
        with self._unchanged_on_error():
            return self._learn(X, y, classes, classes_from_y=True)

    def _learn(self, X: Any, y: Any, classes: ArrayLike | None, classes_from_y: bool) -> Trace:
        first = not hasattr(self, "learners_")
        if not first:
            self._validate_params()
            changed = [
                name
                for name, value in self.started_with_.items()
                if getattr(self, name) is not value and getattr(self, name) != value
            ]
            if changed:
                raise ValueError(f"{', '.join(changed)} changed since the first call; use fit to start anew")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32), reset=first)
        if first:
            self._validate_params()
            check_classification_targets(y)
            if classes is None and not classes_from_y:
                raise ValueError("classes must be given in the first call of partial_fit")
            self._start(check_classes(self, y if classes is None else classes))
        elif classes is not None and not np.array_equal(check_classes(self, classes), self.classes_):
            raise ValueError(f"classes are {self.classes_.tolist()} since the first call; got {classes!r}")
        codes = encode(y, self.classes_)

        said, sizes = zip(*(self._ask_and_teach(learner, X, y) for learner in self.learners_), strict=True)
        advice = np.stack(said, axis=1)  # the class that each learner predicted in each round
        votes = []
        for output, algorithm in zip(self._outputs(), self.algorithms_, strict=True):
            trace = algorithm.play(advice == output, codes == output)
            assert trace.predictions is not None
            votes.append(2.0 * trace.predictions - 1.0)
        margins = np.stack(votes, axis=1)
        if len(votes) == 1:
            mistakes = (margins[:, 0] >= 0.0) != (codes == 1)
        else:
            mistakes = margins.argmax(axis=1) != codes
        self.rounds_ += len(codes)
        self.mistakes_ += int(mistakes.sum())
        self.learner_mistakes_ = self.learner_mistakes_ + (advice != codes[:, None]).sum(axis=0)
        margins = margins[:, 0] if len(votes) == 1 else margins
        return Trace(margins, mistakes, np.sum(sizes, axis=0), predicted_codes(margins), self.classes_)

    def _ask_and_teach(self, learner: Any, X: Any, y: NDArray[Any]) -> tuple[Codes, NDArray[np.int64]]:
        """Teach a learner the batch; what it had predicted round by round, and its supports."""
        if isinstance(learner, OnlineClassifier) and predicts_as_it_learns(learner):
            trace = learner.progressive_fit(X, y, classes=self.classes_)
            return self._class_of(trace.margins), trace.support_sizes
        said = np.zeros(len(y), np.intp)
        for t in range(len(y)):
            row = X[t : t + 1]
            if hasattr(learner, "classes_"):
                said[t] = self._class_of(learner.decision_function(row))[0]
            learner.partial_fit(row, y[t : t + 1], classes=self.classes_)
        return said, np.zeros(len(y), np.int64)

    def _class_of(self, margins: NDArray[np.float64]) -> Codes:
        return margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0.0).astype(np.intp)

    def _outputs(self) -> list[int]:
        return [1] if len(self.classes_) == 2 else list(range(len(self.classes_)))

    def _start(self, classes: NDArray[Any]) -> None:
        if not self.learners:
            raise ValueError("learners must hold at least one classifier")
        for learner in self.learners:
            if not (hasattr(learner, "partial_fit") and hasattr(learner, "decision_function")):
                raise TypeError(f"a learner must have partial_fit and decision_function; got {learner!r}")
        self.classes_ = classes
        self.started_with_ = self.get_params(deep=False)
        self.learners_ = [clone(learner) for learner in self.learners]
        self.rounds_ = self.mistakes_ = 0
        self.learner_mistakes_ = np.zeros(len(self.learners_), np.int64)
        self.algorithms_ = [self._algorithm() for _ in self._outputs()]

    def _algorithm(self) -> ExpertAlgorithm:
        if self.combine == "exponential":
            return ExponentialWeights(self.eta)
        if self.combine == "majority":
            return WeightedMajority(self.beta)
        return RandomizedWeightedMajority(self.beta, self.random_state)

    # ------------------------------------------------------------------ prediction

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """The weighted vote of the learners, from -1 to 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        said = [self._class_of(learner.decision_function(X)) for learner in self.learners_]
        advice = np.stack(said, axis=1)
        pairs = zip(self._outputs(), self.algorithms_, strict=True)
        votes = np.stack([2.0 * ((advice == c) @ algorithm.weights_) - 1.0 for c, algorithm in pairs], axis=1)
        return votes[:, 0] if votes.shape[1] == 1 else votes

    def predict(self, X: Rows) -> NDArray[Any]:
        """The class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        votes = self.decision_function(X)
        labels: NDArray[Any] = self.classes_[self._class_of(votes)]
        return labels

    # ------------------------------------------------------------------ the account

    @property
    def best_learner_(self) -> int:
        """The learner with the fewest mistakes so far, the first of equals."""
        check_is_fitted(self)
        return int(self.learner_mistakes_.argmin())

    @property
    def regret_(self) -> float:
        """Loss less that of the best learner; with more than two classes, the largest of any class."""
        check_is_fitted(self)
        return max(algorithm.regret_ for algorithm in self.algorithms_)

    @property
    def weights_(self) -> NDArray[np.float64]:
        """The learners' shares, of shape (n_outputs, n_learners)."""
        check_is_fitted(self)
        return np.stack([algorithm.weights_ for algorithm in self.algorithms_])

    # ------------------------------------------------------------------ state

    def learned_state(self) -> State | None:
        """Return all that was learned, as values that a file can hold; None before the first round."""
        if not self.__sklearn_is_fitted__():
            return None
        return {name: value for name, value in vars(self).items() if name in LEARNED | OPTIONAL}

    def set_learned_state(self, found: State) -> None:
        """Continue from a state that `learned_state` returned, after checking it."""
        require_names(found, set(LEARNED), type(self).__name__, OPTIONAL)
        check_rows_state(found)
        learners, algorithms, classes = found["learners_"], found["algorithms_"], found["classes_"]
        started = require_names(
            found["started_with_"], set(self._get_param_names()), "the parameters of the start"
        )
        require_no_arrays(started, "the parameters of the start")
        require(isinstance(learners, list) and len(learners) >= 1, "there should be learners")
        for learner in learners:
            require(
                isinstance(learner, OnlineClassifier | ExpertClassifier), "a learner should be a classifier"
            )
            require(
                learner.__sklearn_is_fitted__()
                and np.array_equal(learner.classes_, classes)
                and learner.n_features_in_ == found["n_features_in_"],
                "a learner should have learned the same classes and features",
            )
        outputs = len(classes) if len(classes) > 2 else 1
        require(
            isinstance(algorithms, list) and len(algorithms) == outputs,
            "there should be an algorithm for each output",
        )
        for algorithm in algorithms:
            require(
                isinstance(algorithm, ExpertAlgorithm) and vars(algorithm).get("n_experts_") == len(learners),
                "an algorithm should have an expert for each learner",
            )
        rounds = require_int(found["rounds_"], 0, MOST_ROUNDS, "rounds")
        require_int(found["mistakes_"], 0, rounds, "mistakes")
        require_array(found["learner_mistakes_"], np.int64, (len(learners),), "mistakes of the learners")
        self.__dict__.update(found)

    # ------------------------------------------------------------------ below the surface

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learners_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _unchanged_on_error(self) -> AbstractContextManager[None]:
        # A learner may fail when others have learned the batch already.
        return restore_on_error(self, copy.deepcopy(self.__dict__))
