"""The learner that all keys of a fleet have in common, for keys with few rows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from budgetron._base.access import hypotheses_of
from budgetron._base.batches import Batch
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._core.kernel_fleet import KernelFleet
from budgetron._core.rows import BatchRows
from budgetron._util.checks import MOST_ROUNDS, State, require, require_int, require_names
from budgetron._util.types import Floats, Matrix
from budgetron.fleet._learners import check_learner, check_started
from budgetron.fleet._state import checked_states

__all__ = ["CommonLearner", "check_common"]

ONE = np.zeros(1, np.int64)


def check_common(common: object) -> None:
    """Raise an error if this cannot be the common learner of a fleet."""
    check_learner(common)
    if not isinstance(common, KernelClassifier) or not common.get_params(deep=False).get("budget"):
        raise ValueError(f"common must be a kernel learner with a budget; got {common!r}")


class CommonLearner:
    """A learner that learns the rows of all keys, from its own mistakes only.

    Its states are those of a fleet with one key, so that its rounds are the same in every batch. It keeps at
    most `most_bytes` bytes.
    """

    def __init__(self, model: KernelClassifier) -> None:
        self.model = model
        self._restart()

    def _restart(self) -> None:
        self.states = KernelFleet(hypotheses_of(copy.deepcopy(self.model))[0])
        self.states.resize(1)
        supports: int = hypotheses_of(self.model)[0].budget + 1
        # Computed without supports, so that a loaded fleet leaves the keys as much memory as the saved one.
        self.most_bytes: int = self.states.nbytes + 3 * supports * self.states.support_bytes

    @property
    def nbytes(self) -> int:
        """Bytes that the learner keeps."""
        return self.states.nbytes

    def play(self, batch: Batch) -> Floats:
        """Learn the rows of a checked batch; return their margins divided by the root of the size."""
        n = len(batch.codes)
        margins, sizes = np.empty(n), np.empty(n, np.int64)
        rows = BatchRows(batch.X, hypotheses_of(self.model)[0].dtype)
        self.states.play(np.zeros(n, np.int64), rows, batch.labels[0], margins, sizes=sizes)
        return margins / np.sqrt(np.maximum(sizes, 1))

    def decide(self, X: Matrix) -> Floats:
        """Return the offset of each row."""
        margins = np.empty(X.shape[0])
        rows = BatchRows(X, hypotheses_of(self.model)[0].dtype)
        self.states.decide(np.zeros(X.shape[0], np.int64), rows, margins)
        size = int(self.states.counts(ONE)[0, 3])
        offsets: Floats = margins / np.sqrt(max(size, 1))
        return offsets

    def copied_model(self) -> KernelClassifier:
        """Return the learner as an estimator of its own."""
        model = copy.deepcopy(self.model)
        self.states.copy_to(0, hypotheses_of(model)[0])
        return model

    def state(self) -> State:
        """Return the state as values that a file can hold."""
        return {"model": self.model, "states": self.states.state(ONE), "rows": self.states.rows}

    def restore(self, state: State) -> None:
        """Return to a state that was checked."""
        self._restart()
        self.states.truncate(0)
        self.states.append(state["states"])
        self.states.rows = state["rows"]

    @classmethod
    def from_state(cls, found: Any, common: KernelClassifier) -> CommonLearner:
        """Return the learner of a state that comes from outside, after checking it."""
        state = require_names(found, {"model", "states", "rows"}, "the common learner")
        model = state["model"]
        require(type(model) is type(common), "the common model should be of the class of the common learner")
        require(model.__sklearn_is_fitted__() and model.rounds_ == 0, "it should be before its first round")
        rows = require_int(state["rows"], 0, MOST_ROUNDS, "rows of the common learner")
        check_started(model)
        states = checked_states(state["states"], model, 1, rows, pooled=False)
        learner = cls(copy.deepcopy(model))
        learner.restore({"states": states, "rows": rows})
        return learner
