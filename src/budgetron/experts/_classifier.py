"""A classifier that combines several learners by an expert algorithm."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager
from numbers import Real
from typing import ClassVar, Never, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from budgetron._base.access import predicts_as_it_learns
from budgetron._base.batches import (
    are_integers,
    check_classes,
    check_same_classes,
    encode,
    label_array,
    predicted_codes,
    refuse_unknown,
    signed_margin,
    validated,
)
from budgetron._base.fitted_estimator import OPTIONAL
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.progress import shown_learners, verbose_call
from budgetron._base.stateful_estimator import StatefulEstimator
from budgetron._base.trace import Trace
from budgetron._util.checks import State
from budgetron._util.restore import restore_on_error
from budgetron._util.types import Codes, Floats, Ints, Labels, Rows
from budgetron.experts._base import Constraints, ExpertAlgorithm
from budgetron.experts._classifier_state import LEARNED, check_state
from budgetron.experts._exponential import ExponentialWeights
from budgetron.experts._majority import RandomizedWeightedMajority, WeightedMajority


@runtime_checkable
class ExpertLearner(Protocol):
    """A classifier that can be an expert: any scikit-learn estimator with these two methods."""

    def partial_fit(self, X: Rows, y: Labels, classes: Labels) -> object: ...
    def decision_function(self, X: Rows) -> Floats: ...


class ExpertClassifier(MetaEstimatorMixin, ClassifierMixin, StatefulEstimator):
    """Several learners at once, combined by an expert algorithm.

    Use it if you do not know in advance which learner, kernel width or budget suits the stream. Every learner
    learns every round by its own rule. The combination makes few more mistakes than the best of them. It
    costs as much time and memory as all learners together.

    Parameters
    ----------
    learners : list of classifiers
        Learners of Budgetron, or any with `partial_fit` and `decision_function`. The latter learn row by row,
        because each has to predict a row before it learns it. They are cloned.
    combine : {"exponential", "majority", "randomized"}, default="exponential"
        The expert algorithm over the learners' yes-or-no predictions: `ExponentialWeights`,
        `WeightedMajority` or `RandomizedWeightedMajority`.
    eta : float, "doubling" or "anytime", default="anytime"
        Learning rate of "exponential".
    beta : float, default=0.5
        The factor by which the weight of a wrong learner is multiplied, in [0, 1) for "majority" and [1/2, 1)
        for "randomized".
    random_state : int, RandomState or None, default=None
        Seed of the random choices of "randomized".

    Attributes
    ----------
    learners_ : list of classifiers
        The learners after the last round. Parameters that may change at any time, like `n_jobs`, are set on
        these: ``model.learners_[0].set_params(n_jobs=2)``.
    learner_mistakes_ : ndarray of shape (n_learners,)
        Number of rounds in which each learner predicted the wrong class.
    algorithms_ : list of expert algorithms
        One for two classes, otherwise one per class. They hold the weights and losses.

    Notes
    -----
    Regret is measured in the absolute loss of the weighted vote against 0 or 1, which for "randomized" is the
    expected number of mistakes. It is bounded by the algorithm's theorem. For the default, `eta="anytime"`,
    this is Theorem 2.3 of Cesa-Bianchi and Lugosi; for the other settings, Theorems 8.3, 8.4, 8.6 and 8.7 of
    Foundations of Machine Learning. `predict` returns the weighted majority, also for "randomized"; the trace
    of `progressive_fit` has the predictions that were made. With more than two classes each class has its own
    algorithm, whose experts vote for or against this class.

    A vote of exactly 0 predicts the first class. In a trace it counts as a mistake, whatever the label.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.2. Cesa-Bianchi, Lugosi:
    Prediction, Learning, and Games (2006), Theorem 2.3.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "learners": [list, tuple],
        "combine": [StrOptions({"exponential", "majority", "randomized"})],
        "eta": [StrOptions({"doubling", "anytime"}), Interval(Real, 0.0, None, closed="neither")],
        "beta": [Interval(Real, 0.0, 1.0, closed="left")],
        "random_state": ["random_state"],
    }

    classes_: Labels
    learners_: list[ExpertLearner]
    algorithms_: list[ExpertAlgorithm]
    learner_mistakes_: Ints
    rounds_: int
    mistakes_: int

    def __init__(
        self,
        learners: Sequence[ExpertLearner],
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

    def fit(self, X: Rows, y: ArrayLike, *, verbose: bool = False, **unknown: Never) -> Self:
        """Start again from an empty model, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        verbose : bool, default=False
            Whether to print on stderr, for each learner, the number of rounds and the time that they took.

        Returns
        -------
        self
        """
        refuse_unknown(self, "fit", unknown)
        with self._unchanged_on_error(), verbose_call(verbose):
            for name in [name for name in self.__dict__ if name.endswith("_")]:
                del self.__dict__[name]
            self._learn(X, y, None, classes_from_y=True)
        return self

    def partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        verbose: bool = False,
        **unknown: Never,
    ) -> Self:
        """Play one round per row, in the given order, starting from the current model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; required in the first call.
        verbose : bool, default=False
            Whether to print on stderr, for each learner, the number of rounds and the time that they took.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with self._unchanged_on_error(), verbose_call(verbose):
            self._learn(X, y, classes, classes_from_y=False)
        return self

    def progressive_fit(
        self, X: Rows, y: ArrayLike, classes: ArrayLike | None = None, *, verbose: bool = False
    ) -> Trace:
        """Do the same as `partial_fit`, and return the trace.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur. In the first call the default is the labels in `y`.
        verbose : bool, default=False
            Whether to print on stderr, for each learner, the number of rounds and the time that they took.

        Returns
        -------
        Trace
            Its margins are the weighted votes, from -1 to 1; for "majority" and "randomized" they are the
            predictions that were made, -1 or 1.
        """
        with self._unchanged_on_error(), verbose_call(verbose):
            return self._learn(X, y, classes, classes_from_y=True)

    def _learn(self, X: Rows, y: ArrayLike, classes: ArrayLike | None, classes_from_y: bool) -> Trace:
        X, labels = self._check_batch(X, y, classes, classes_from_y)
        codes, first = encode(labels, self.classes_), self.rounds_ == 0
        predicted, sizes = zip(
            *(
                _learn_expert(learner, X, labels, self.classes_, first)
                for learner in shown_learners(self.learners_, len(codes))
            ),
            strict=True,
        )
        advice = np.stack(predicted, axis=1)  # the class that each learner predicted in each round
        margins = np.stack(
            [
                _votes(algorithm, advice == output, codes == output)
                for output, algorithm in zip(self._outputs(), self.algorithms_, strict=True)
            ],
            axis=1,
        )
        if len(self.classes_) == 2:
            margins = margins[:, 0] if self._outputs() == [1] else -margins[:, 0]
        mistakes = signed_margin(margins, codes, multiclass=margins.ndim == 2) <= 0.0
        self.rounds_ += len(codes)
        self.mistakes_ += int(mistakes.sum())
        self.learner_mistakes_ = self.learner_mistakes_ + (advice != codes[:, None]).sum(axis=0)
        return Trace(
            margins=margins,
            mistakes=mistakes,
            support_sizes=np.sum(sizes, axis=0),
            codes=predicted_codes(margins),
            classes=self.classes_,
        )

    def _check_batch(
        self, X: Rows, y: ArrayLike, classes: ArrayLike | None, classes_from_y: bool
    ) -> tuple[Rows, Labels]:
        """Check parameters, rows and labels; start the learners if this is the first batch."""
        first = not self.__sklearn_is_fitted__()
        if not first:
            self._check_parameters_unchanged()
        X, labels = validated(self, X, label_array(y), dtype=(np.float64, np.float32), reset=first)
        if first:
            self._validate_params()
            if not are_integers(labels):
                check_classification_targets(labels)
            if classes is None and not classes_from_y:
                raise ValueError("classes must be given in the first call of partial_fit")
            self._start(check_classes(self, labels if classes is None else classes))
        elif classes is not None:
            check_same_classes(self, classes, self.classes_)
        return X, labels

    def _check_parameters_unchanged(self) -> None:
        self._validate_params()
        now = self.get_params(deep=False)
        changed = [
            name
            for name, value in self.started_with_.items()
            if now[name] is not value and now[name] != value
        ]
        if changed:
            raise ValueError(
                f"{', '.join(changed)} changed since the first call; use fit to start with new parameters"
            )

    def _outputs(self) -> list[int]:
        """Return the class that each algorithm votes for or against.

        Of two classes this is the second, except for "majority": `WeightedMajority` resolves a tie in favour
        of the class it votes for, and a tie has to predict the first class.
        """
        if len(self.classes_) == 2:
            return [0] if self.combine == "majority" else [1]
        return list(range(len(self.classes_)))

    def _start(self, classes: Labels) -> None:
        if not self.learners:
            raise ValueError("learners must hold at least one classifier")
        for learner in self.learners:
            if not isinstance(learner, ExpertLearner):
                raise TypeError(f"a learner must have partial_fit and decision_function; got {learner!r}")
        self.classes_ = classes
        self.started_with_ = self.get_params(deep=False)
        self.learners_ = [clone(learner) for learner in self.learners]
        self.rounds_ = self.mistakes_ = 0
        self.learner_mistakes_ = np.zeros(len(self.learners_), np.int64)
        self.algorithms_ = [_new_algorithm(self) for _ in self._outputs()]

    # ------------------------------------------------------------------ prediction

    def decision_function(self, X: Rows) -> Floats:
        """Return the weighted vote of the learners, from -1 to 1.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        check_is_fitted(self)
        X = validated(self, X, dtype=(np.float64, np.float32), reset=False)
        predicted = [predicted_codes(learner.decision_function(X)) for learner in self.learners_]
        advice = np.stack(predicted, axis=1)
        outputs = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        pairs = zip(outputs, self.algorithms_, strict=True)
        votes = np.stack([2.0 * ((advice == c) @ algorithm.weights_) - 1.0 for c, algorithm in pairs], axis=1)
        return votes[:, 0] if votes.shape[1] == 1 else votes

    def predict(self, X: Rows) -> Labels:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        votes = self.decision_function(X)
        labels: Labels = self.classes_[predicted_codes(votes)]
        return labels

    # ------------------------------------------------------------------ results

    @property
    def best_learner_(self) -> int:
        """The learner with the fewest mistakes so far; the first one in a tie."""
        check_is_fitted(self)
        return int(self.learner_mistakes_.argmin())

    @property
    def regret_(self) -> float:
        """Own loss minus that of the best learner; with more than two classes, the largest of any class."""
        check_is_fitted(self)
        return max(algorithm.regret_ for algorithm in self.algorithms_)

    @property
    def regret_bound_(self) -> float:
        """Upper bound of `regret_`; only for "exponential"."""
        check_is_fitted(self)
        bounds = [a.regret_bound_ for a in self.algorithms_ if isinstance(a, ExponentialWeights)]
        if not bounds:
            raise AttributeError(
                f'combine="{self.combine}" has no bound of the regret; "exponential" has one'
            )
        return max(bounds)

    @property
    def weights_(self) -> Floats:
        """The learners' shares of the vote, of shape (n_outputs, n_learners)."""
        check_is_fitted(self)
        return np.stack([algorithm.weights_ for algorithm in self.algorithms_])

    # ------------------------------------------------------------------ state

    def learned_state(self) -> State | None:
        if not self.__sklearn_is_fitted__():
            return None
        return {name: value for name, value in vars(self).items() if name in LEARNED | OPTIONAL}

    def _learned_attributes(self) -> frozenset[str]:
        return LEARNED | OPTIONAL

    def set_learned_state(self, found: State) -> None:
        check_state(found, self.parameter_names(), ExpertLearner)
        self.__dict__.update(found)

    # ------------------------------------------------------------------ internals

    def __sklearn_is_fitted__(self) -> bool:
        return "learners_" in self.__dict__

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _unchanged_on_error(self) -> AbstractContextManager[None]:
        # A learner may fail after others have learned the batch, so all of them are copied.
        return restore_on_error(self, copy.deepcopy(self.__dict__))


def _learn_expert(
    learner: ExpertLearner, X: Rows, y: Labels, classes: Labels, first: bool
) -> tuple[Codes, Ints]:
    """Let a learner learn a batch; return the class it predicted in each round, and its supports."""
    if isinstance(learner, OnlineClassifier) and predicts_as_it_learns(learner):
        trace = learner.progressive_fit(X, y, classes=classes)
        return trace.codes, trace.support_sizes
    predicted = np.zeros(len(y), np.intp)
    for t in range(len(y)):
        row = X[t : t + 1]
        if t or not first:  # a learner of scikit-learn cannot predict before its first row
            predicted[t] = predicted_codes(learner.decision_function(row))[0]
        learner.partial_fit(row, y[t : t + 1], classes=classes)
    return predicted, np.zeros(len(y), np.int64)


def _new_algorithm(model: ExpertClassifier) -> ExpertAlgorithm:
    if model.combine == "exponential":
        return ExponentialWeights(model.eta)
    if model.combine == "majority":
        return WeightedMajority(model.beta)
    return RandomizedWeightedMajority(model.beta, model.random_state)


def _votes(algorithm: ExpertAlgorithm, advice: NDArray[np.bool_], outcomes: NDArray[np.bool_]) -> Floats:
    """Play the rounds of a batch; return the algorithm's predictions, scaled from [0, 1] to [-1, 1]."""
    predictions = algorithm.play(advice, outcomes).predictions
    assert predictions is not None
    return 2.0 * predictions - 1.0
