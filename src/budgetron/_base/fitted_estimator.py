"""The fitted state of an online learner: its hypotheses, parameters that must not change, and pickling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from budgetron._base.protocol import Hypothesis
from budgetron._base.stateful_estimator import StatefulEstimator
from budgetron._util.checks import State, require, require_int, require_names, require_no_arrays
from budgetron._util.restore import restore_on_error
from budgetron._util.types import Matrix

__all__ = ["FittedEstimator"]

OPTIONAL = frozenset({"feature_names_in_"})

# For learners that draw no random numbers.
UNUSED = np.random.Generator(np.random.PCG64(0))


class FittedEstimator(StatefulEstimator):
    """An estimator with one hypothesis per output, or one for all outputs.

    Two classes, or one target of a regression, have one output; more classes have one each.

    A subclass defines how hypotheses are made (`_make`) and how they are restored from their states
    (`_restore`). It lists in `_learned_names` the attributes that it has once it is fitted.
    """

    # Whether there is one hypothesis for all outputs.
    _joint: ClassVar[bool] = False
    # Parameters that do not change what is learned, and may change between calls.
    _free_parameters: ClassVar[frozenset[str]] = frozenset()
    _learned_names: ClassVar[frozenset[str]] = frozenset({"n_features_in_", "_started_with", "_learners"})

    n_features_in_: int
    _learners: Sequence[Hypothesis]
    _started_with: dict[str, Any]

    def _make(self, X: Matrix, outputs: int) -> Sequence[Hypothesis]:
        """Return a hypothesis for each output, or one for all, ready for its first round.

        `X` are the first rows.
        """
        raise NotImplementedError(f"{type(self).__name__} must define _make")

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> Sequence[Hypothesis]:
        """Return a hypothesis for each state, after checking it."""
        raise NotImplementedError(f"{type(self).__name__} must define _restore")

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        """Check the attributes in a state that only this class has."""

    # ------------------------------------------------------------------ what was learned

    @property
    def rounds_(self) -> int:
        """Number of rounds played."""
        return self._fitted()[0].rounds

    @property
    def nbytes_(self) -> int:
        """Bytes of all numbers that the model keeps: rows, coefficients, and what its rounds need.

        With one output, the Python objects around them take about 2 kB for a linear learner and up to 4 kB
        for a kernel learner, whatever the budget and the number of features.
        """
        return sum(hypothesis.nbytes for hypothesis in self._fitted())

    def _is_joint(self) -> bool:
        """Return whether there is one hypothesis for all outputs."""
        return self._joint

    def _fitted(self) -> Sequence[Hypothesis]:
        # An AttributeError, so that hasattr(model, "rounds_") is False before the first round.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet")
        return self._learners

    def __sklearn_is_fitted__(self) -> bool:
        return "_learners" in self.__dict__

    # ------------------------------------------------------------------ start, and start again

    def _start_outputs(self, X: Matrix, outputs: int) -> None:
        """Make the hypotheses, given the first rows and the number of outputs."""
        self._started_with = self.get_params()
        self._learners = self._make(X, outputs)

    def _forget(self) -> None:
        """Return to the state before the first round."""
        for name in [name for name in self.__dict__ if name in self._all_learned or name.endswith("_")]:
            del self.__dict__[name]

    @property
    def _all_learned(self) -> frozenset[str]:
        return self._learned_attributes() | FittedEstimator._learned_names | self._derived_names

    def _check_parameters(self) -> None:
        """Check that the parameters are valid at the first call, and unchanged at later ones."""
        if not self.__sklearn_is_fitted__():
            self._validate_params()
            return
        now = self.get_params()
        changed = [
            name
            for name, value in self._started_with.items()
            if not self._may_change(name) and now.get(name) is not value and now.get(name) != value
        ]
        if changed:
            self._validate_params()
            raise ValueError(f"{', '.join(changed)} changed since the first call; call fit to start again")

    def _may_change(self, name: str) -> bool:
        """Return whether this parameter may change between calls."""
        return name in self._free_parameters

    def _draws(self) -> bool:
        """Return whether hypotheses draw random numbers: those with the parameter `random_state` do."""
        return "random_state" in self.parameter_names()

    def _generators(self, n: int) -> list[np.random.Generator]:
        """Return a random generator for each hypothesis, all derived from `random_state`."""
        if not self._draws():
            return [UNUSED] * n
        source = check_random_state(self.get_params(deep=False)["random_state"])
        seed = np.random.SeedSequence(source.randint(0, 2**32, size=4, dtype=np.uint64).tolist())
        return [np.random.Generator(np.random.PCG64(child)) for child in seed.spawn(n)]

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Restore all attributes after an error; after an interrupt, keep the rounds that were learned."""
        before = dict(self.__dict__)
        with restore_on_error(self, before):
            try:
                yield
            except KeyboardInterrupt:
                # Interrupts occur between rounds only: existing hypotheses keep what they have learned.
                if "_learners" in before and before["_learners"] is self.__dict__.get("_learners"):
                    before |= self.__dict__
                raise

    # ------------------------------------------------------------------ state

    def _learned_attributes(self) -> frozenset[str]:
        return self._learned_names | OPTIONAL

    def learned_state(self) -> State | None:
        if not self.__sklearn_is_fitted__():
            return None
        names = self._learned_attributes()
        state = {name: value for name, value in vars(self).items() if name in names}
        return state | {"_learners": self._hypothesis_states()}

    def set_learned_state(self, found: State) -> None:
        found = dict(require_names(found, set(self._learned_names), type(self).__name__, OPTIONAL))
        self._check_outputs(found)
        started = found["_started_with"]
        require(isinstance(started, dict), "the parameters at the first call should be a table of names")
        require_no_arrays(started, "the parameters at the first call")
        now = self.get_params()
        if started == now:
            found["_started_with"] = now  # an equal dict, of strings that all models share
        found["_learners"] = self._checked_hypotheses(found)
        self._check_learned(found, found["_learners"])
        self._check_counts(found)
        self.__dict__.update(found)

    def _check_outputs(self, found: State) -> None:
        """Check what a state says about its features and its outputs."""
        check_features_state(found)

    def _check_counts(self, found: State) -> None:
        """Check the numbers in a state that depend on the hypotheses, which were checked."""

    @classmethod
    def _outputs_in(cls, found: State) -> int:
        """Return the number of outputs of a state, whose classes were checked if it has any."""
        return 1

    def _hypothesis_states(self) -> State:
        hypotheses = self._fitted()
        return {"dtype": hypotheses[0].dtype.name, "states": [one.state() for one in hypotheses]}

    def _checked_hypotheses(self, found: State) -> Sequence[Hypothesis]:
        return self.restored_hypotheses(found)

    @classmethod
    def restored_hypotheses(cls, found: State) -> Sequence[Hypothesis]:
        """Return the hypotheses of a learner whose attributes, with states for `_learners`, are `found`."""
        started = require_names(
            found["_started_with"], set(cls.parameter_names()), "the parameters at the first call"
        )
        maker = cls(**started)
        maker._validate_params()
        kept = require_names(found["_learners"], {"dtype", "states"}, "the hypotheses")
        require(kept["dtype"] in ("float32", "float64"), "rows should be float32 or float64")
        needed = 1 if cls._joint else cls._outputs_in(found)
        require(isinstance(kept["states"], list), "hypotheses should be a list")
        require(
            not cls._joint or len(kept["states"]) == 1,
            f"this state has a hypothesis for each class, and {cls.__name__} has one for all: learn again",
        )
        require(len(kept["states"]) == needed, "there should be a hypothesis for each output")
        made = maker._restore(kept["states"], found, np.dtype(kept["dtype"]))
        require(
            len({hypothesis.rounds for hypothesis in made}) == 1,
            "all classes should have played the same rounds",
        )
        return made


def check_features_state(found: State) -> None:
    """Check the features in a state."""
    d = require_int(found["n_features_in_"], 1, 2**31 - 1, "number of features")
    if "feature_names_in_" in found:
        names = found["feature_names_in_"]
        require(
            isinstance(names, np.ndarray) and names.shape == (d,), f"there should be names of {d} features"
        )
