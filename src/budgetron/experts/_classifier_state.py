"""The learned state of `ExpertClassifier`, checked before it is used."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from budgetron._base.class_state import check_rows_state
from budgetron._base.fitted_estimator import OPTIONAL
from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_int,
    require_names,
    require_no_arrays,
)
from budgetron.experts._base import ExpertAlgorithm

__all__ = ["LEARNED", "check_state"]

# Attributes of a fitted classifier.
LEARNED = frozenset(
    {"classes_", "n_features_in_", "started_with_", "learners_", "rounds_", "mistakes_"}
    | {"learner_mistakes_", "algorithms_"}
)


def check_state(found: State, parameters: list[str], kind: type) -> None:
    """Raise `ValueError` if a state is invalid; its learners must be of this kind."""
    require_names(found, set(LEARNED), "ExpertClassifier", OPTIONAL)
    check_rows_state(found)
    learners, algorithms, classes = found["learners_"], found["algorithms_"], found["classes_"]
    started = require_names(found["started_with_"], set(parameters), "the parameters at the first call")
    require_no_arrays(started, "the parameters at the first call")
    require(isinstance(learners, list) and len(learners) >= 1, "there should be learners")
    for learner in learners:
        require(isinstance(learner, kind), "a learner should be a classifier")
        check_is_fitted(learner)
        require(
            np.array_equal(learner.classes_, classes) and learner.n_features_in_ == found["n_features_in_"],
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
