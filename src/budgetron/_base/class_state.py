"""The classes of a fitted classifier: which they are, their codes, and the mistakes."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

import numpy as np

from budgetron._base.fitted_estimator import check_features_state
from budgetron._base.row_player import RowPlayer
from budgetron._util.checks import State, require, require_int
from budgetron._util.types import Label, Labels, Matrix

__all__ = ["ClassState", "check_rows_state"]


class ClassState(RowPlayer):
    """An estimator whose outputs belong to classes. Two classes have one output; more have one each."""

    _learned_names: ClassVar[frozenset[str]] = RowPlayer._learned_names | {"classes_", "_mistakes"}
    _derived_names: ClassVar[frozenset[str]] = frozenset({"_codes"})

    classes_: Labels
    _codes: dict[Label, int]
    _mistakes: int

    @property
    def mistakes_(self) -> int:
        """Number of rounds that were mistakes."""
        hypotheses = self._fitted()
        return hypotheses[0].mistakes if len(hypotheses) == 1 else self._mistakes

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_) if len(self.classes_) > 2 else 1

    def _start(self, X: Matrix, classes: Labels) -> None:
        """Make the hypotheses, given the first rows and the classes."""
        self._set_classes(classes)
        self._mistakes = 0
        self._start_outputs(X, len(classes) if len(classes) > 2 else 1)

    def _set_classes(self, classes: Labels) -> None:
        self.classes_ = classes
        labels = tuple(classes.tolist())
        self._codes = _codes_of(tuple(map(type, labels)), labels)

    def set_learned_state(self, found: State) -> None:
        super().set_learned_state(found)
        self._set_classes(self.classes_)

    def _check_outputs(self, found: State) -> None:
        check_rows_state(found)

    def _check_counts(self, found: State) -> None:
        require_int(found["_mistakes"], 0, found["_learners"][0].rounds, "mistakes")

    @classmethod
    def _outputs_in(cls, found: State) -> int:
        classes = len(found["classes_"])
        return classes if classes > 2 else 1


@lru_cache(maxsize=100)
def _codes_of(types: tuple[type, ...], labels: tuple[Label, ...]) -> dict[Label, int]:
    """Return the index of each label; the same dict for all models with these labels, of these types.

    The types are given because 1 == 1.0 == True.
    """
    return {label: code for code, label in enumerate(labels)}


def check_rows_state(found: State) -> None:
    """Check the features and classes in a state."""
    check_features_state(found)
    classes = found["classes_"]
    require(
        isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2,
        "classes should be two or more",
    )
    require((classes[1:] > classes[:-1]).all(), "classes should be sorted, each once")
