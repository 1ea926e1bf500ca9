"""Models that learned different rows, merged into one: for learners with a Gaussian hypothesis."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from budgetron._base.delta import Delta, require_same_coordinates
from budgetron._base.loss_classifier import LossClassifier
from budgetron._base.natural import Natural
from budgetron._util.checks import MOST_ROUNDS, State

__all__ = ["MergeableClassifier"]

# Longer texts in the coordinates of a delta are replaced by their hash.
LONGEST_TEXT = 200


class MergeableClassifier(LossClassifier, ABC):
    """A learner whose Gaussian can be added to that of others.

    A subclass defines how its Gaussian is read (`_natural`) and replaced (`_state_of`).
    """

    @abstractmethod
    def _natural(self) -> Natural:
        """Return the natural parameters of the Gaussian of a fitted model."""

    @abstractmethod
    def _state_of(self, natural: Natural) -> State:
        """Return the state of the hypothesis, with the Gaussian of these natural parameters."""

    def _set_hypothesis(self, hypothesis: Any) -> None:
        """Replace what the hypothesis has learned by that of another, which is not used afterwards."""
        self._learners[0].restore_from(hypothesis)

    # The methods of this class hide those of `OnlineClassifier`, which are properties that raise an error.
    def delta(self, since: Self) -> Delta:
        """Return what this model has learned since an earlier state.

        Parameters
        ----------
        since : estimator
            A copy of this model, made earlier with `copy.deepcopy`, `budgetron.save` or pickle.

        Returns
        -------
        Delta
            For `merge`. It takes about 4 n^2 bytes, where n is the number of coordinates (for
            `SecondOrderProjectron` supports and features), or 16 per feature without covariances.

        Notes
        -----
        The state is a Gaussian with covariance Sigma and one mean w_c per output. The delta is the change of
        the precision Sigma^-1 and of Sigma^-1 w_c. These are sums over the rows that were learned, so that
        deltas can be added.
        """
        self._require_mergeable()
        if type(since) is not type(self):
            raise TypeError(
                f"since must be an earlier copy of this {type(self).__name__}; got {type(since).__name__}"
            )
        since._require_mergeable()
        own = self._coordinates()
        require_same_coordinates(own, since._coordinates(), "this model", "the earlier state")
        now, before = self._counts(), since._counts()
        rounds, mistakes, updates = (late - early for late, early in zip(now, before, strict=True))
        if min(rounds, mistakes, updates) < 0:
            raise ValueError(
                f"since must be an earlier state of this model; it has played {before[0]} rounds, and this "
                f"model {now[0]}"
            )
        return Delta(rounds, mistakes, updates, own, self._natural().plus(since._natural(), -1.0))

    def merge(self, deltas: Iterable[Delta]) -> Self:
        """Add what copies of this model have learned from other rows.

        Parameters
        ----------
        deltas : iterable of Delta
            Results of `delta`. Each should be given once, to one model. They need not start from the present
            state of this model, and their order does not matter except for rounding.

        Returns
        -------
        self

        Notes
        -----
        The precisions, and the precisions times the means, are added. The result is what one model would have
        learned from the same rows with the same weights of their losses (curvature and step). It is equal to
        that of a single pass over all rows, up to rounding,

        - with the squared loss and full covariance, for every cut of the stream into parts;
        - with the hinge loss, two classes and full covariance, if the same rows are margin errors;
        - with every loss, if rows of different parts have no features in common, which needs
          ``fit_intercept=False``.

        Otherwise it is close if the parts are short; see `budgetron.merging.merge_period`.

        Examples
        --------
        >>> import copy
        >>> from sklearn.datasets import load_digits
        >>> from budgetron.linear import AROW
        >>> X, y = load_digits(return_X_y=True)
        >>> model = AROW().partial_fit(X[:500], y[:500], classes=range(10))
        >>> workers = [copy.deepcopy(model) for _ in range(2)]
        >>> deltas = [
        ...     worker.partial_fit(X[part], y[part]).delta(since=model)
        ...     for worker, part in zip(workers, (slice(500, 1100), slice(1100, 1700)), strict=True)
        ... ]
        >>> model.merge(deltas).rounds_
        1700
        >>> round(model.score(X[1700:], y[1700:]), 2)
        0.86
        """
        self._require_mergeable()
        if isinstance(deltas, Delta):
            raise TypeError("deltas must be a list of deltas; put the single delta in a list")
        given = list(deltas)
        if not given:
            return self
        own, counts, total = self._coordinates(), list(self._counts()), self._natural()
        for delta in given:
            if not isinstance(delta, Delta):
                raise TypeError(f"deltas must contain results of delta; got {type(delta).__name__}")
            require_same_coordinates(delta.coordinates, own, "a delta", "this model")
            added = (delta.rounds, delta.mistakes, delta.updates)
            counts = [mine + more for mine, more in zip(counts, added, strict=True)]
            total = total.plus(delta.natural)
        if not total.is_finite() or counts[0] > MOST_ROUNDS:
            raise ValueError("the sum of the deltas is not finite; scale the features")
        state = self._state_of(total) | dict(zip(("rounds", "mistakes"), counts, strict=False))
        if "updates" in state:
            state["updates"] = counts[2]
        found = dict(self.learned_state() or {})
        found["_learners"] = found["_learners"] | {"states": [state]}
        (merged,) = self._checked_hypotheses(found)
        self._set_hypothesis(merged)
        return self

    # ------------------------------------------------------------------ checks

    def _require_mergeable(self) -> None:
        check_is_fitted(self)
        self._check_parameters()
        if self.forget < 1.0:
            raise ValueError(
                "a model with forget < 1 cannot be merged: each copy forgets a part of the rows they have in "
                "common, so that these would be forgotten once per copy; use forget=1"
            )
        hypothesis: Any = self._learners[0]
        if hypothesis.average is not None or hypothesis.journal is not None:
            raise ValueError(
                "a model that keeps its past hypotheses cannot be merged: the merged model has no single past"
            )

    def _counts(self) -> tuple[int, int, int]:
        """Return the rounds, mistakes and updates."""
        hypothesis: Any = self._learners[0]
        return hypothesis.rounds, hypothesis.mistakes, int(getattr(hypothesis, "updates", 0))

    def _coordinates(self) -> dict[str, str]:
        """Return, as texts, everything that must be the same in models that are merged."""
        parameters = {name: value for name, value in self._started_with.items() if not self._may_change(name)}
        texts = {
            "class": type(self).__name__,
            **{name: _text(value) for name, value in sorted(parameters.items())},
            "loss_": self.loss_,
            "number of features": str(self.n_features_in_),
            "classes": _text(self.classes_.tolist()),
        }
        return {
            name: text if len(text) <= LONGEST_TEXT else hashlib.sha256(text.encode()).hexdigest()
            for name, text in texts.items()
        }


def _text(value: Any) -> str:
    """Return a text that is the same for equal values in every process."""
    if isinstance(value, dict):
        return repr(sorted((repr(key), repr(item)) for key, item in value.items()))
    return getattr(value, "__qualname__", None) or repr(value)
