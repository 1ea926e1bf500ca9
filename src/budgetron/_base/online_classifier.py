"""The scikit-learn face of the online learners: everything that is not the algorithm.

Validation, labels, one against the rest, sparse rows, traces and errors that change
nothing are written once, here, over hypotheses that play rounds of rows labelled -1 or +1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from budgetron._base.batches import (
    Batch,
    Hypothesis,
    Rows,
    canonical,
    check_classes,
    encode,
    largest_square,
    ledger_of,
    refuse_unknown,
    signed_margin,
)
from budgetron._base.compiled_state import state_of
from budgetron._base.parameters import CheckedEstimator
from budgetron._base.trace import Trace
from budgetron._util.checks import require, require_names
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.restore import restore_on_error
from budgetron._util.threads import one_thread

__all__ = ["OnlineClassifier"]


class OnlineClassifier(ClassifierMixin, CheckedEstimator):
    """What all learners share. A subclass says how its hypotheses are made (`_make`)."""

    # Parameters that do not change what is learned, and may change between calls.
    _free_parameters: frozenset[str] = frozenset()

    # Whether `decision_function` speaks for the hypothesis that the next round is predicted with.
    _predicts_as_it_learns: bool = True

    classes_: NDArray[Any]
    n_features_in_: int
    _learners: Sequence[Hypothesis]
    _codes: dict[Any, int]
    _mistakes: int
    _started_with: dict[str, Any]

    # ------------------------------------------------------------------ what a learner says

    def _make(self, X: Any, outputs: int) -> Sequence[Hypothesis]:
        """One `Hypothesis` for each output, ready for its first round, given the first rows."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its hypotheses are made")

    def _importances(self, X: Any, labels: NDArray[Any], weights: Any) -> NDArray[np.float64] | None:
        """The weights of the rows of a batch; None if all are 1."""
        return None

    def _importance(self, label: Any) -> float:
        """The weight of a row of this class."""
        return 1.0

    def _check_class_weight(self, classes: NDArray[Any]) -> None:
        """Refuse weights of what is no class, and never will be."""

    def _decide(self, learner: Any, X: NDArray[Any]) -> NDArray[np.float64]:
        """The values that `decision_function` returns for one hypothesis."""
        values: NDArray[np.float64] = learner.decide(X)
        return values

    # ------------------------------------------------------------------ learning

    # What is unknown is taken only to be refused: for weights, Python's own message gives no reason.
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
            self._forget()
            self._learn(X, y, classes_from_y=True)
        return self

    def partial_fit(
        self,
        X: Rows,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        admit: bool = False,
        **unknown: Never,
    ) -> Self:
        """Play one round per row, in the given order, going on from where the model is.

        The result does not depend on how a stream is cut into batches (but ``gamma="scale"``
        is fixed by the first).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call unless `admit`.
        admit : bool, default=False
            Whether a label that is no class yet becomes one. Its hypothesis begins empty in the round where
            it is first seen. When two classes become three, what told them apart serves both of them,
            each with its sign. The first call needs two labels, or `classes`.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with self._unchanged_on_error():
            if admit:
                self._learn_and_admit(X, y, classes)
            else:
                self._learn(X, y, classes)
        return self

    def progressive_fit(
        self, X: Rows, y: ArrayLike, classes: ArrayLike | None = None, *, ledger: bool = False
    ) -> Trace:
        """Do what `partial_fit` does, and return the trace.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur. In the first call the labels of `y` if not given.
        ledger : bool, default=False
            Whether to record the quantities of the algorithm's proof.

        Returns
        -------
        Trace
        """
        with self._unchanged_on_error():
            trace = self._learn(X, y, classes, classes_from_y=True, trace=True, ledger=ledger)
            assert trace is not None
            return trace

    def play(self, x: Rows, y: Any, classes: ArrayLike | None = None) -> float | NDArray[np.float64]:
        """Play one round: predict x, then see y and learn.

        Much faster than `partial_fit` on one row. Shape, finiteness and label are
        checked; nothing else is.

        Parameters
        ----------
        x : array-like of shape (n_features,), or one sparse row
        y : label
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed if this is the first call.

        Returns
        -------
        float or ndarray of shape (n_classes,)
            The margin before y was seen; with more than two classes, one for each.
        """
        try:
            learners, code = self._learners, self._codes[y]
        except (AttributeError, KeyError, TypeError):
            if not self.__sklearn_is_fitted__():
                return self._play_first(x, y, classes)
            got = y.item() if isinstance(y, np.generic) else y
            raise ValueError(f"y must be one of the classes {self.classes_.tolist()}; got {got!r}") from None
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes are {self.classes_.tolist()} since the first call; got {classes!r}")
        importance = self._importance(y)
        if len(learners) == 1:
            margin: float = learners[0].play(x, 1.0 if code else -1.0, importance)
            return margin
        margins = np.array([learner.open_round(x) for learner in learners])
        with self._restored_on_error(any(learner.may_fail() for learner in learners)):
            for i, learner in enumerate(learners):
                learner.close_round(1.0 if i == code else -1.0, importance)
        self._mistakes += int(signed_margin(margins[None, :], np.array([code]), multiclass=True)[0] <= 0.0)
        return margins

    def _play_first(self, x: Rows, y: Any, classes: ArrayLike | None) -> float | NDArray[np.float64]:
        if classes is None:
            raise ValueError("classes must be given in the first call of play")
        row: Any = x if issparse(x) else np.asarray(x)
        if row.ndim != 1 and row.shape[:-1] != (1,):
            raise ValueError(f"x must be one row of features; got an array of shape {row.shape}")
        with self._unchanged_on_error():
            self._validate_params()
            checked = self._check_rows(row.reshape((1, -1)).tocsr() if issparse(row) else row.reshape(1, -1))
            known = check_classes(self, classes)
            self._check_class_weight(known)
            self._start(checked, known)
            return self.play(checked if issparse(checked) else checked[0], y)

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        *,
        classes_from_y: bool = False,
        trace: bool = False,
        ledger: bool = False,
        weights: Any = None,
        admit: bool = False,
    ) -> Trace | None:
        batch = self._open_batch(
            X,
            y,
            classes,
            classes_from_y=classes_from_y,
            trace=trace,
            ledger=ledger,
            weights=weights,
            admit=admit,
        )
        may_fail = batch.importances is not None or self._batch_may_fail(batch.X)
        before = self.rounds_
        try:
            with self._restored_on_error(may_fail), one_thread():
                for part in self._parts(batch):
                    with defer_interrupts():  # lest hypotheses stand at different rounds
                        self._rounds(part)
        except KeyboardInterrupt:  # what was learned until then counts
            self._close_batch(batch.part(slice(self.rounds_ - before)))
            raise
        return self._close_batch(batch)

    def _learn_and_admit(self, X: Any, y: Any, classes: ArrayLike | None, weights: Any = None) -> None:
        """Learn a batch, cut where a class is seen for the first time."""
        labels = column_or_1d(y)
        appearing = labels[np.sort(np.unique(labels, return_index=True)[1])]
        first = not self.__sklearn_is_fitted__()
        if first:
            classes = np.union1d(appearing[:2] if classes is None else np.asarray(classes), appearing[:1])
        known = set(np.asarray(classes).tolist()) if first else set(self._codes)
        new = [label for label in appearing.tolist() if label not in known]
        if not new:
            self._learn(X, y, classes if first else None, weights=weights, admit=True)
            return
        self._check_parameters()
        X, labels = self._check_rows(X, labels)  # all of it, before any of it is learned
        if weights is not None:
            weights = np.broadcast_to(np.asarray(weights, np.float64), len(labels))
        if not first:
            self._go_on_with_copies()
        cuts = [*(int(np.flatnonzero(labels == label)[0]) for label in new), len(labels)]
        for label, start, stop in zip([None, *new], [0, *cuts], cuts, strict=False):
            if label is not None:
                self._admit(label)
            if stop > start:
                rows = slice(start, stop)
                begun = classes if first and label is None else None
                weighed = None if weights is None else weights[rows]
                self._learn(X[rows], labels[rows], begun, weights=weighed, admit=True)

    def _go_on_with_copies(self) -> None:
        """Learn with copies: the hypotheses as they were are put back if a part of a batch fails."""
        self._learners = copy.deepcopy(self._learners)

    def _admit(self, label: Any) -> None:
        """One more class: its hypothesis begins now, and what told two classes apart becomes one for each."""
        learners, rounds = list(self._learners), self.rounds_
        if self.classes_.dtype.kind not in "OU" and isinstance(label, str):
            raise ValueError(f"the classes are numbers, {self.classes_.tolist()}; got the label {label!r}")
        if self.classes_.dtype.kind == "U" and not isinstance(label, str):
            raise ValueError(f"the classes are text, {self.classes_.tolist()}; got the label {label!r}")
        if len(learners) == 1:
            self._mistakes = learners[0].mistakes
            learners.insert(0, self._mirror(learners[0], self._generators(2)[1]))
        newcomer = self._new_hypothesis(self._generators(len(learners) + 1)[-1])
        _set_round_count(newcomer, rounds)
        classes = np.append(
            self.classes_, np.array([label], object if self.classes_.dtype == object else None)
        )
        order = np.argsort(classes, kind="stable")
        self.classes_ = classes[order]
        self._codes = {known: code for code, known in enumerate(self.classes_.tolist())}
        self._learners = [[*learners, newcomer][i] for i in order]

    def _widen(self, d: int) -> None:
        """Take rows of d features from here on, as if those that are new had been there, and 0, all along."""
        self._learners = [self._widened(learner, d) for learner in self._learners]
        self.n_features_in_ = d

    def _widened(self, learner: Any, d: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot take more features")

    def _new_hypothesis(self, generator: np.random.Generator) -> Any:
        """A hypothesis like the others, ready for its first round."""
        raise NotImplementedError(f"{type(self).__name__} cannot admit classes")

    def _mirror(self, learner: Any, generator: np.random.Generator) -> Any:
        """The hypothesis that opposite labels would have made; or an empty one, if that cannot be known."""
        another = self._new_hypothesis(generator)
        _set_round_count(another, learner.rounds)
        return another

    def _rounds(self, batch: Batch) -> None:
        """Play the rounds of a batch with each hypothesis."""
        for i, learner in enumerate(self._learners):
            self._learn_output(learner, batch, i)

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        """What is learned before an interrupt is heeded."""
        yield batch

    def _learn_output(self, learner: Any, batch: Batch, i: int, *more: Any) -> None:
        """Play the rounds of a batch with the hypothesis of output i; `more` is for its `learn` alone."""
        learner.learn(
            batch.X,
            batch.signs[i],
            None if batch.margins is None else batch.margins[i],
            None if batch.sizes is None else batch.sizes[i],
            None if batch.ledger is None else batch.ledger[i],
            *more,
            **({} if batch.importances is None else {"importances": batch.importances}),
        )

    def _open_batch(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        *,
        classes_from_y: bool = False,
        trace: bool = True,
        ledger: bool = False,
        weights: Any = None,
        admit: bool = False,
    ) -> Batch:
        """Check the rows and labels of a batch, and start if it is the first."""
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        X, y = self._check_rows(X, y)
        if (
            first and y.dtype.kind not in "biu"
        ):  # whole numbers are classes; later ones are compared with them
            check_classification_targets(y)
        if first and classes is None:
            if not classes_from_y:
                raise ValueError("classes must be given in the first call of partial_fit")
            classes = y
        known = check_classes(self, classes) if first else self.classes_
        if not first and classes is not None and not np.array_equal(check_classes(self, classes), known):
            raise ValueError(
                f"classes are {known.tolist()} since the first call; got {np.unique(classes).tolist()}"
            )
        codes = encode(y, known)
        importances = self._importances(X, y, weights)
        if first:
            if not admit:  # else others may come
                self._check_class_weight(known)
            self._start(X, known)

        outputs = len(self._learners)
        shape = (outputs, len(codes))
        return Batch(
            X=X,
            codes=codes,
            signs=[np.where(codes == c, 1.0, -1.0) for c in (range(outputs) if outputs > 1 else [1])],
            margins=np.empty(shape) if trace or outputs > 1 else None,
            sizes=np.empty(shape, np.int64) if trace else None,
            ledger=np.empty((*shape, len(self._learners[0].ledger))) if ledger else None,
            importances=importances,
        )

    def _close_batch(self, batch: Batch) -> Trace | None:
        """Count the mistakes of a batch whose rounds were played; its trace, if one was asked for."""
        if batch.margins is None:
            return None
        multiclass = len(self._learners) > 1
        margins = batch.margins.T if multiclass else batch.margins[0]
        mistakes = signed_margin(margins, batch.codes, multiclass=multiclass) <= 0.0
        self._mistakes += int(mistakes.sum()) if multiclass else 0
        if batch.sizes is None:
            return None
        return Trace(
            margins=margins.copy() if multiclass else margins,
            mistakes=mistakes,
            support_sizes=batch.sizes.sum(axis=0),
            ledger=None if batch.ledger is None else ledger_of(self._learners[0].ledger, batch.ledger),
        )

    def _batch_may_fail(self, X: Any) -> bool:
        """Whether a round of this batch might overflow, or call a kernel that fails."""
        largest = largest_square(X)
        return not all(learner.is_safe(largest) for learner in self._learners)

    @contextmanager
    def _restored_on_error(self, may_fail: bool) -> Iterator[None]:
        """Go back to where the learners were, if rounds fail half way.

        Values of sane rows cannot overflow, and then nothing can fail; only where they
        might, or the kernel is a Python function, is a copy kept.
        """
        if not may_fail:
            yield
            return
        before = copy.deepcopy(self._learners)
        try:
            yield
        except BaseException:
            for learner, saved in zip(self._learners, before, strict=True):
                learner.__setstate__(saved.__getstate__())
            raise

    # ------------------------------------------------------------------ prediction

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """f(x) for each row: above 0 speaks for the second of two classes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,), or (n_samples, n_classes) with more than two classes
        """
        check_is_fitted(self)
        checked = self._check_rows(X)
        with one_thread():
            margins = self._margins(checked)
        if not np.isfinite(margins).all():
            row = int(np.flatnonzero(~np.isfinite(margins).all(axis=0))[0])
            raise ValueError(f"f(x) of row {row} is not finite: its features are too large; scale them")
        return margins[0] if len(margins) == 1 else margins.T.copy()

    def _margins(self, X: Any) -> NDArray[np.float64]:
        """f(x) of each output for rows that were checked, of shape (n_outputs, n_samples)."""
        return np.array([self._decide(learner, X) for learner in self._learners])

    def _next_margins(self, X: Any) -> NDArray[np.float64]:
        """The same for rows of which each might be the next of the stream."""
        return self._margins(X)

    def predict(self, X: Rows) -> NDArray[Any]:
        """The class of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        margins = self.decision_function(X)
        codes = margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0.0).astype(np.intp)
        labels: NDArray[Any] = self.classes_[codes]
        return labels

    @property
    def predict_proba(self) -> Any:
        """What `CalibratedClassifier` has, and the learner alone has not."""
        raise AttributeError(
            f"{type(self).__name__} says f(x) (decision_function) and no probabilities; "
            "CalibratedClassifier(learner) learns as a learner does, and has predict_proba"
        )

    # ------------------------------------------------------------------ what was learned

    @property
    def rounds_(self) -> int:
        """Number of rounds played."""
        return self._fitted()[0].rounds

    @property
    def mistakes_(self) -> int:
        """Number of rounds that were mistakes."""
        learners = self._fitted()
        return learners[0].mistakes if len(learners) == 1 else self._mistakes

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        return sum(learner.nbytes for learner in self._fitted())

    # ------------------------------------------------------------------ below the surface

    def __sklearn_is_fitted__(self) -> bool:
        return "_learners" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # Hypotheses as plain tables: a library that builds objects from a foreign state, as skops does, then
        # needs to trust no compiled class, and the state is checked like that of a file.
        state = dict(super().__getstate__())
        if "_learners" in state:
            state["_learners"] = self._hypothesis_states()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_learners" in state:
            # A copy: arrays of a memory-mapped file are read-only.
            state = state | {"_learners": copy.deepcopy(state["_learners"])}
            state = state | {"_learners": self.restored_hypotheses(state)}
        super().__setstate__(state)

    def _hypothesis_states(self) -> dict[str, Any]:
        """All that the hypotheses must remember: plain values, arrays, and tables of these."""
        learners = self._fitted()
        return {"dtype": learners[0].row.dtype.name, "states": [self._state_of(one) for one in learners]}

    def _state_of(self, hypothesis: Any) -> dict[str, Any]:
        return state_of(hypothesis)

    @classmethod
    def restored_hypotheses(cls, found: dict[str, Any]) -> list[Any]:
        """Return the hypotheses of a fitted learner with these attributes.

        `found` holds the attributes of the learner; `_learners` is what `_hypothesis_states` returned.
        """
        started = require_names(
            found["_started_with"], set(cls._get_param_names()), "the parameters of the start"
        )
        maker = cls(**started)
        maker._validate_params()
        kept = require_names(found["_learners"], {"dtype", "states"}, "the hypotheses")
        require(kept["dtype"] in ("float32", "float64"), "rows should be float32 or float64")
        outputs = len(found["classes_"])
        require(
            isinstance(kept["states"], list) and len(kept["states"]) == (outputs if outputs > 2 else 1),
            "there should be a hypothesis for each output",
        )
        made = maker._restore(kept["states"], found, np.dtype(kept["dtype"]))
        require(
            len({hypothesis.rounds for hypothesis in made}) == 1,
            "all classes should have played the same rounds",
        )
        return made

    def _restore(self, states: list[Any], found: dict[str, Any], dtype: np.dtype[Any]) -> list[Any]:
        """Return a hypothesis for each state, after checking it."""
        raise NotImplementedError(f"{type(self).__name__} cannot restore hypotheses")

    def _fitted(self) -> Sequence[Hypothesis]:
        # An AttributeError, so that hasattr says what is so.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet")
        return self._learners

    def _forget(self) -> None:
        ours = {"_learners", "_codes", "_mistakes", "_started_with"}
        for name in [name for name in self.__dict__ if name in ours or name.endswith("_")]:
            del self.__dict__[name]

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = dict(self.__dict__)
        with restore_on_error(self, before):
            try:
                yield
            except KeyboardInterrupt:
                # It is heeded between rounds: what the hypotheses that there were have learned, they keep
                if "_learners" in before and before["_learners"] is self.__dict__.get("_learners"):
                    before |= self.__dict__
                raise

    def _check_rows(self, X: Any, y: Any = "no_validation") -> Any:
        first = not self.__sklearn_is_fitted__()
        dtype = (np.float64, np.float32) if first else self._learners[0].row.dtype
        checked = validate_data(self, X, y, accept_sparse="csr", dtype=dtype, order="C", reset=first)
        if isinstance(checked, tuple):
            return canonical(checked[0]), checked[1]
        return canonical(checked)

    def _check_parameters(self) -> None:
        """Parameters must be valid at the first call and stay as they were then."""
        if not self.__sklearn_is_fitted__():
            self._validate_params()
            return
        now = self.get_params()
        changed = [
            name
            for name, value in self._started_with.items()
            if name not in self._free_parameters and now.get(name) is not value and now.get(name) != value
        ]
        if changed:
            self._validate_params()
            raise ValueError(f"{', '.join(changed)} changed since the first call; use fit to start anew")

    def _start(self, X: Any, classes: NDArray[Any]) -> None:
        self.classes_ = classes
        self._codes = {label: code for code, label in enumerate(classes.tolist())}
        self._mistakes = 0
        self._started_with = self.get_params()
        self._learners = self._make(X, len(classes) if len(classes) > 2 else 1)

    def _generators(self, n: int) -> list[np.random.Generator]:
        """One source of randomness for each hypothesis, all from `random_state`; nobody draws without one."""
        if not hasattr(self, "random_state"):
            return [np.random.Generator(np.random.PCG64(0))] * n
        source = check_random_state(self.random_state)
        seed = np.random.SeedSequence(source.randint(0, 2**32, size=4, dtype=np.uint64).tolist())
        return [np.random.Generator(np.random.PCG64(child)) for child in seed.spawn(n)]


def _set_round_count(learner: Any, rounds: int) -> None:
    """Let a new hypothesis have been there, and empty, for so many rounds."""
    rule = getattr(learner, "rule", learner)
    rule.__setstate__(rule.__getstate__() | {"rounds": rounds})
