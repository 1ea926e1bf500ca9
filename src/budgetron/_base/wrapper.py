"""Estimators around another learner: its parameters, its start and its state."""

from __future__ import annotations

from typing import Any, ClassVar, Self, TypeVar

from sklearn.base import clone

from budgetron._base.fitted_estimator import FittedEstimator
from budgetron._util.checks import State, require

__all__ = ["Wrapper"]

Learner = TypeVar("Learner", bound=FittedEstimator)


class Wrapper(FittedEstimator):
    """An estimator that clones its parameter `learner`, and uses the hypotheses of the clone, `learner_`."""

    # The hypotheses are those of `learner_`.
    _derived_names: ClassVar[frozenset[str]] = frozenset({"_learners"})

    learner: Any
    learner_: Any

    def set_params(self, **params: object) -> Self:
        """Set parameters; ``learner__name`` is that of the learner.

        Those that do not change what is learned, like ``learner__n_jobs``, may be set at any time, and apply
        to `learner_` as well.

        Parameters
        ----------
        **params : dict
            The parameters by name.

        Returns
        -------
        self
        """
        super().set_params(**params)
        self._pass_on_free_parameters()
        return self

    def _pass_on_free_parameters(self) -> None:
        if self.__sklearn_is_fitted__() and isinstance(self.learner, type(self.learner_)):
            for name in self.learner_._free_parameters:
                setattr(self.learner_, name, getattr(self.learner, name))

    def _may_change(self, name: str) -> bool:
        return name.startswith("learner__") and self.learner_._may_change(name.removeprefix("learner__"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._pass_on_free_parameters()  # also of a learner that was changed without `set_params`

    def _clone_of(self, learner: Learner) -> Learner:
        """Return a clone that knows the features of the first rows."""
        copy: Learner = clone(learner)
        for name in ("n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(copy, name, vars(self)[name])
        return copy

    # ------------------------------------------------------------------ state

    def learned_state(self) -> State | None:
        if not self.__sklearn_is_fitted__():
            return None
        names = self._learned_attributes()
        return {name: value for name, value in vars(self).items() if name in names}

    def _check_learner(self, found: State) -> None:
        """Check the learner in a state, whose class was checked, and the parameters at the first call."""
        # With those of the learner, whose names depend on the version that wrote the state.
        names, started = set(self.parameter_names()), set(found["_started_with"])
        require(
            names <= started and all(name.partition("__")[0] in names for name in started),
            "the parameters at the first call are incomplete or unexpected",
        )
        learner: FittedEstimator = found["learner_"]
        require(learner.__sklearn_is_fitted__(), "learner_ should have learned")
        require(learner.n_features_in_ == found["n_features_in_"], "learner_ should have the same features")
