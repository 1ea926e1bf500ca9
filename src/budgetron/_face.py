"""The scikit-learn face of the kernel learners: everything that is not the algorithm.

Validation, labels, one against the rest, sparse rows, traces and the fitted
attributes are written once, here. A learner adds its parameters and says which
rule they make (`_rule`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron._threads import one_thread
from budgetron._trace import Trace
from budgetron.kernels import NAMES, KernelFunction, Normalized, resolve, resolve_gamma

__all__ = ["BudgetedClassifier", "KernelClassifier"]

# What scikit-learn takes for X: anything like an array, a data frame, or a CSR matrix.
Rows = Any

# Sparse rows are made dense in pieces of about this many numbers.
DENSE_AT_ONCE = 1 << 19


class KernelClassifier(ClassifierMixin, BaseEstimator):
    """What all kernel learners share.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "allsubsets"}, callable or Normalized, default="rbf"
        The kernel; see `budgetron.kernels`.
    gamma : float, "scale" or "auto", default="scale"
        Width of "rbf" and "laplacian", factor of "poly". "scale" is
        1 / (n_features * X.var()) of the first batch, and stays.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant term of "poly".
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(NAMES)), callable, Normalized],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Integral, 0, 2**31 - 1, closed="both")],
        "coef0": [Interval(Real, None, None, closed="neither")],
    }

    kernel: str | KernelFunction | Normalized
    gamma: float | str
    degree: int
    coef0: float
    classes_: NDArray[Any]
    gamma_: float
    n_features_in_: int
    _learners: list[Learner]
    _codes: dict[Any, int]
    _mistakes: int
    _started_with: dict[str, Any]

    def __init__(
        self,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0

    # ------------------------------------------------------------------ what a learner says

    def _rule(self, generator: np.random.Generator) -> Rule:
        """The algorithm with this learner's parameters, ready for its first round."""
        raise NotImplementedError(f"{type(self).__name__} does not say which rule it follows")

    def _decide(self, learner: Learner, X: NDArray[Any]) -> NDArray[np.float64]:
        """The values that `decision_function` returns for one hypothesis."""
        return learner.decide(X)

    # ------------------------------------------------------------------ learning

    def fit(self, X: Rows, y: ArrayLike) -> Self:
        """Forget everything, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)

        Returns
        -------
        self
        """
        with self._unchanged_on_error():
            self._forget()
            self._learn(X, y, classes_from_y=True)
        return self

    def partial_fit(self, X: Rows, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Play one round per row, in the given order, going on from where the model is.

        The result does not depend on how a stream is cut into batches (but ``gamma="scale"``
        is fixed by the first).

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
        with self._unchanged_on_error():
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
        learners = self.__dict__.get("_learners")
        if learners is None:
            return self._play_first(x, y, classes)
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes are {self.classes_.tolist()} since the first call; got {classes!r}")
        try:
            code = self._codes[y]
        except (KeyError, TypeError):
            got = y.item() if isinstance(y, np.generic) else y
            raise ValueError(f"y must be one of the classes {self.classes_.tolist()}; got {got!r}") from None
        if len(learners) == 1:
            margin: float = learners[0].play(x, 1.0 if code else -1.0)
            return margin
        margins = np.array([learner.open_round(x) for learner in learners])
        for i, learner in enumerate(learners):
            learner.close_round(1.0 if i == code else -1.0)
        self._mistakes += int(_missed(margins[None, :], np.array([code]))[0])
        return margins

    def _play_first(self, x: Rows, y: Any, classes: ArrayLike | None) -> float | NDArray[np.float64]:
        if classes is None:
            raise ValueError("classes must be given in the first call of play")
        row = x.toarray().reshape(-1) if issparse(x) else np.asarray(x)
        if row.ndim != 1:
            raise ValueError(f"x must be one row of features; got an array of shape {row.shape}")
        with self._unchanged_on_error():
            self._validate_params()
            checked = self._check_rows(row[None, :])
            self._start(checked, self._check_classes(classes))
            return self.play(checked[0], y)

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        *,
        classes_from_y: bool = False,
        trace: bool = False,
        ledger: bool = False,
    ) -> Trace | None:
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        X, y = self._check_rows(X, y)
        if first:  # later labels are compared with the classes
            check_classification_targets(y)
        if first and classes is None:
            if not classes_from_y:
                raise ValueError("classes must be given in the first call of partial_fit")
            classes = y
        known = self._check_classes(classes) if first else self.classes_
        if not first and classes is not None and not np.array_equal(self._check_classes(classes), known):
            raise ValueError(
                f"classes are {known.tolist()} since the first call; got {np.unique(classes).tolist()}"
            )
        codes = _encode(y, known)
        if first:
            self._start(X, known)

        learners, multiclass = self._learners, len(self._learners) > 1
        signs = [np.where(codes == c, 1.0, -1.0) for c in (range(len(learners)) if multiclass else [1])]
        shape = (len(learners), len(codes))
        margins = np.empty(shape) if trace or multiclass else None
        sizes = np.empty(shape, np.int64) if trace else None
        names = learners[0].rule.ledger
        entries = np.empty((*shape, len(names))) if ledger else None
        with self._restored_on_error(X), one_thread():
            for start, rows in self._dense_pieces(X):
                piece = slice(start, start + len(rows))
                for i, learner in enumerate(learners):
                    learner.learn(
                        rows,
                        signs[i][piece],
                        None if margins is None else margins[i, piece],
                        None if sizes is None else sizes[i, piece],
                        None if entries is None else entries[i, piece],
                    )
        if margins is None:
            return None
        mistakes = _missed(margins.T, codes) if multiclass else signs[0] * margins[0] <= 0.0
        self._mistakes += int(mistakes.sum()) if multiclass else 0
        if sizes is None:
            return None
        return Trace(
            margins=margins.T.copy() if multiclass else margins[0],
            mistakes=mistakes,
            support_sizes=sizes.sum(axis=0),
            ledger=None if entries is None else _ledger(names, entries),
        )

    @contextmanager
    def _restored_on_error(self, X: Any) -> Iterator[None]:
        """Go back to where the learners were, if a batch fails half way.

        Kernel values of sane rows cannot overflow, and then nothing can fail; only where they
        might, or the kernel is a Python function, is a copy kept.
        """
        learners = self._learners
        if all(learner.is_safe(_largest_square(X)) for learner in learners):
            yield
            return
        before = copy.deepcopy(learners, {id(learner.kernel): learner.kernel for learner in learners})
        try:
            yield
        except BaseException:
            for learner, saved in zip(learners, before, strict=True):
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
        margins = np.empty((len(self._learners), checked.shape[0]))
        with one_thread():
            for start, rows in self._dense_pieces(checked):
                for i, learner in enumerate(self._learners):
                    margins[i, start : start + len(rows)] = self._decide(learner, rows)
        if not np.isfinite(margins).all():
            row = int(np.flatnonzero(~np.isfinite(margins).all(axis=0))[0])
            raise ValueError(
                f"f(x) of row {row} is not finite: its kernel values overflow; scale the features"
            )
        return margins[0] if len(margins) == 1 else margins.T.copy()

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

    # ------------------------------------------------------------------ what was learned

    @property
    def support_(self) -> NDArray[np.int64]:
        """The 0-based round in which each support was added, oldest first."""
        rounds = [_live(learner, "rounds") for learner in self._fitted()]
        return rounds[0] if len(rounds) == 1 else np.unique(np.concatenate(rounds))

    @property
    def support_vectors_(self) -> NDArray[Any]:
        """The supports, one row each, in the order of `support_`."""
        learners = self._fitted()
        if len(learners) == 1:
            return _live(learners[0], "rows")
        rounds = self.support_
        rows = np.empty((len(rounds), self.n_features_in_), learners[0].row.dtype)
        for learner in learners:
            rows[np.searchsorted(rounds, _live(learner, "rounds"))] = _live(learner, "rows")
        return rows

    @property
    def dual_coef_(self) -> NDArray[np.float64]:
        """Coefficients of shape (n_outputs, n_support_), in the order of `support_`."""
        rounds = self.support_
        coef = np.zeros((len(self._learners), len(rounds)))
        for i, learner in enumerate(self._learners):
            coef[i, np.searchsorted(rounds, _live(learner, "rounds"))] = learner.rule.coefficients()
        return coef

    @property
    def n_support_(self) -> int:
        """Number of supports; one that several classes hold counts once."""
        return len(self.support_)

    @property
    def rounds_(self) -> int:
        """Number of rounds played."""
        return self._fitted()[0].rule.rounds

    @property
    def mistakes_(self) -> int:
        """Number of rounds that were mistakes."""
        learners = self._fitted()
        return learners[0].rule.mistakes if len(learners) == 1 else self._mistakes

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

    def _fitted(self) -> list[Learner]:
        # An AttributeError, so that hasattr says what is so.
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet")
        return self._learners

    def _forget(self) -> None:
        for name in (
            "_learners",
            "_codes",
            "_mistakes",
            "classes_",
            "gamma_",
            "n_features_in_",
            "feature_names_in_",
        ):
            self.__dict__.pop(name, None)

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_rows(self, X: Any, y: Any = "no_validation") -> Any:
        first = not self.__sklearn_is_fitted__()
        dtype = (np.float64, np.float32) if first else self._learners[0].row.dtype
        return validate_data(self, X, y, accept_sparse="csr", dtype=dtype, order="C", reset=first)

    def _check_classes(self, classes: ArrayLike | None) -> NDArray[Any]:
        unique = np.unique(np.asarray(classes))
        if len(unique) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; got 1 class: {unique.tolist()}"
            )
        return unique

    def _check_parameters(self) -> None:
        """Parameters must be valid at the first call and stay as they were then."""
        if not self.__sklearn_is_fitted__():
            self._validate_params()
            return
        now = {name: getattr(self, name) for name in self._started_with}
        changed = [
            name
            for name, value in self._started_with.items()
            if now[name] is not value and now[name] != value
        ]
        if changed:
            self._validate_params()
            raise ValueError(f"{', '.join(changed)} changed since the first call; use fit to start anew")

    def _start(self, X: Any, classes: NDArray[Any]) -> None:
        self.gamma_ = resolve_gamma(self.gamma, X)
        self.classes_ = classes
        self._codes = {label: code for code, label in enumerate(classes.tolist())}
        self._mistakes = 0
        self._started_with = self.get_params(deep=False)
        kernel: Kernel = resolve(self.kernel, self.gamma_, self.degree, self.coef0)
        outputs = len(classes) if len(classes) > 2 else 1
        self._learners = [
            Learner(kernel, self._rule(generator), X.shape[1], X.dtype)
            for generator in self._generators(outputs)
        ]

    def _generators(self, n: int) -> list[np.random.Generator]:
        """One source of randomness for each hypothesis, all from `random_state`."""
        source = check_random_state(getattr(self, "random_state", 0))
        seed = np.random.SeedSequence(source.randint(0, 2**32, size=4, dtype=np.uint64).tolist())
        return [np.random.Generator(np.random.PCG64(child)) for child in seed.spawn(n)]

    def _dense_pieces(self, X: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        if not issparse(X):
            yield 0, X
            return
        step = max(1, min(1024, DENSE_AT_ONCE // X.shape[1]))
        for start in range(0, X.shape[0], step):
            yield start, np.ascontiguousarray(X[start : start + step].toarray())


class BudgetedClassifier(KernelClassifier):
    """A kernel learner with a budget and no other parameter of its own."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(
        self,
        budget: int = 100,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0)
        self.budget = budget


def _encode(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        unknown = classes[codes] != y
    else:  # Python's equality: as arrays, a number would be compared with text by its name
        known = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([known.get(label, -1) for label in y.tolist()], np.intp)
        unknown = codes < 0
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise ValueError(f"y must hold the classes {classes.tolist()}; row {row} has {y.tolist()[row]!r}")
    return codes


def _missed(margins: NDArray[np.float64], codes: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Rounds in which the right class is not above all others; a tie is a mistake."""
    rows = np.arange(len(codes))
    right = margins[rows, codes]
    others = margins.copy()
    others[rows, codes] = -np.inf
    missed: NDArray[np.bool_] = right <= others.max(axis=1)
    return missed


def _ledger(names: tuple[str, ...], entries: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    columns = {name: entries[:, :, j].T.copy() for j, name in enumerate(names)}
    if "removed" in columns:
        columns["removed"] = columns["removed"].astype(np.int64)
    return {name: values[:, 0] if values.shape[1] == 1 else values for name, values in columns.items()}


def _live(learner: Learner, array: str) -> NDArray[Any]:
    """An array of the slab for the supports alone, oldest first."""
    values: NDArray[Any] = getattr(learner.supports, array)[learner.supports.order[: learner.supports.m]]
    return values


def _largest_square(X: Any) -> float:
    """The largest squared norm of a row."""
    with np.errstate(over="ignore"):
        squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
        return float(np.max(squares))
