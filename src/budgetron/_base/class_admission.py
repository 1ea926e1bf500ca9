"""Classes and features that appear while a learner is learning."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from budgetron._base.batches import joined_labels, label_array
from budgetron._base.protocol import Hypothesis
from budgetron._base.rounds import RoundPlayer
from budgetron._util.types import Label, Rows

__all__ = ["ClassAdmission"]


class ClassAdmission(RoundPlayer):
    """An estimator that can add classes and features between rounds."""

    def _new_hypothesis(self, generator: np.random.Generator) -> Hypothesis:
        """Return a hypothesis like the existing ones, ready for its first round."""
        raise NotImplementedError(f"{type(self).__name__} cannot add classes")

    def _learn_and_admit(
        self, X: Rows, y: ArrayLike, classes: ArrayLike | None, weights: ArrayLike | None = None
    ) -> None:
        """Learn a batch in parts; each part starts where a class is seen for the first time."""
        labels = column_or_1d(label_array(y))
        in_order = labels[np.sort(np.unique(labels, return_index=True)[1])]
        first = not self.__sklearn_is_fitted__()
        if first:
            given = in_order[:2] if classes is None else np.asarray(label_array(classes))
            classes = joined_labels(given, in_order[:1].tolist())
        known = set(np.asarray(classes).tolist()) if first else set(self._codes)
        new = [label for label in in_order.tolist() if label not in known]
        if not new:
            self._learn(X, y, classes if first else None, weights=weights, admit=True)
            return
        self._check_parameters()
        rows, labels = self._check_labelled_rows(X, labels)  # all rows, before any of them is learned
        if weights is not None:
            weights = np.broadcast_to(np.asarray(weights, np.float64), len(labels))
        if not first:
            self._continue_with_copies()
        starts = [int(np.flatnonzero(labels == label)[0]) for label in new]
        for label, start, stop in zip([None, *new], [0, *starts], [*starts, len(labels)], strict=True):
            if label is not None:
                self._admit(label)
            if stop > start:
                part = slice(start, stop)
                part_classes = classes if first and label is None else None
                part_weights = None if weights is None else np.asarray(weights)[part]
                self._learn(rows[part], labels[part], part_classes, weights=part_weights, admit=True)

    def _continue_with_copies(self) -> None:
        """Replace the hypotheses by copies, so that the originals can be restored if a part fails."""
        self._learners = copy.deepcopy(self._learners)

    def _admit(self, label: Label) -> None:
        """Add a class.

        Its output starts now. The one output of two classes becomes one for each of them.
        """
        hypotheses: list[Any] = list(self._learners)
        rounds = self.rounds_
        if self.classes_.dtype.kind not in "OU" and isinstance(label, str):
            raise ValueError(f"the classes are numbers, {self.classes_.tolist()}; got the label {label!r}")
        if self.classes_.dtype.kind == "U" and not isinstance(label, str):
            raise ValueError(f"the classes are text, {self.classes_.tolist()}; got the label {label!r}")
        classes = joined_labels(self.classes_, [label])
        order = np.argsort(classes, kind="stable")
        if self._is_joint():
            hypotheses[0].add_output(int(np.flatnonzero(order == len(order) - 1)[0]))
        else:
            if len(hypotheses) == 1:
                self._mistakes = hypotheses[0].mistakes
                hypotheses.insert(0, self._mirror(hypotheses[0], self._generators(2)[1]))
            new = self._new_hypothesis(self._generators(len(hypotheses) + 1)[-1])
            new.set_round_count(rounds)
            hypotheses = [[*hypotheses, new][i] for i in order]
        self._set_classes(classes[order])
        self._learners = hypotheses

    def _mirror(self, hypothesis: Hypothesis, generator: np.random.Generator) -> Hypothesis:
        """Return the hypothesis that opposite labels would have made, or a new one if it cannot be known."""
        mirrored = hypothesis.mirrored(generator)
        if mirrored is None:
            mirrored = self._new_hypothesis(generator)
            mirrored.set_round_count(hypothesis.rounds)
        return mirrored
