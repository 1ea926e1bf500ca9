"""What goes in and comes out of a batch: rows and labels, and what a hypothesis must be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from budgetron._core.history import Average, Journal
from budgetron._core.rows import check_features

__all__ = [
    "Batch",
    "Hypothesis",
    "Rows",
    "canonical",
    "check_classes",
    "encode",
    "largest_square",
    "ledger_of",
    "refuse_unknown",
    "signed_margin",
]

# What scikit-learn takes for X: anything like an array, a data frame, or a CSR matrix.
Rows = Any


class Hypothesis(Protocol):
    """What the face asks of a compiled learner of two classes."""

    row: NDArray[Any]

    @property
    def rounds(self) -> int: ...
    @property
    def mistakes(self) -> int: ...
    @property
    def ledger(self) -> tuple[str, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def is_safe(self, square: float) -> bool: ...
    def may_fail(self) -> bool: ...
    def learn(
        self,
        X: NDArray[Any],
        y: NDArray[np.float64],
        margins: NDArray[np.float64] | None,
        sizes: NDArray[np.int64] | None,
        ledger: NDArray[np.float64] | None,
    ) -> None: ...
    def play(self, x: Any, y: float, importance: float = ...) -> float: ...
    def open_round(self, x: Any) -> float: ...
    def close_round(self, y: float, importance: float = ...) -> None: ...
    def decide(self, X: NDArray[Any]) -> NDArray[np.float64]: ...
    @property
    def average(self) -> Average | None: ...
    @property
    def journal(self) -> Journal | None: ...
    def keep_average(self) -> None: ...
    def keep_journal(self) -> None: ...
    def decide_average(self, X: Any) -> NDArray[np.float64]: ...
    def basis(self, X: Any) -> Any: ...
    def columns(self, places: NDArray[np.int64]) -> NDArray[np.int64]: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Batch:
    """The rounds of a batch: what is known before them, and room for what they leave behind."""

    X: Any
    codes: NDArray[np.intp]
    # For each output: labels of -1 and +1, and a row of each of the arrays to fill
    signs: list[NDArray[np.float64]]
    margins: NDArray[np.float64] | None
    sizes: NDArray[np.int64] | None
    ledger: NDArray[np.float64] | None
    # Weights of the rows, if there are any
    importances: NDArray[np.float64] | None = None

    def part(self, rows: slice) -> Batch:
        """Some of the rounds, with room in the same arrays."""
        return Batch(
            self.X[rows],
            self.codes[rows],
            [sign[rows] for sign in self.signs],
            None if self.margins is None else self.margins[:, rows],
            None if self.sizes is None else self.sizes[:, rows],
            None if self.ledger is None else self.ledger[:, rows],
            None if self.importances is None else self.importances[rows],
        )


def refuse_unknown(model: Any, method: str, unknown: Mapping[str, object]) -> None:
    """Refuse keywords that a method does not have, as Python does; weights with the reason."""
    if "sample_weight" in unknown:
        raise TypeError(
            f"{type(model).__name__} has no meaning for weights, and takes no sample_weight; "
            "PassiveAggressive, linear.PassiveAggressive and linear.OnlineSVM do"
        )
    for name in unknown:
        raise TypeError(f"{type(model).__name__}.{method}() got an unexpected keyword argument {name!r}")


def canonical(X: Any) -> Any:
    """The rows; of a CSR matrix with its features in order and none of them twice."""
    if issparse(X):
        check_features(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    return X


def check_classes(model: Any, classes: ArrayLike | None) -> NDArray[Any]:
    """The classes, sorted; there must be two."""
    unique = np.unique(np.asarray(classes))
    if len(unique) < 2:
        raise ValueError(
            f"{type(model).__name__} needs at least two classes; got 1 class: {unique.tolist()}. If others "
            "are to come, name them all in classes"
        )
    return unique


def encode(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Each label's place among the classes."""
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


def signed_margin(
    margins: NDArray[np.float64], codes: NDArray[np.intp], *, multiclass: bool
) -> NDArray[np.float64]:
    """How far each row is right: y f(x), or the margin of its class less the largest other one.

    Margins have the rows in their last axis; with more than two classes, in the one before it.
    """
    if not multiclass:
        return np.where(codes == 1, margins, -margins)
    places = np.broadcast_to(codes[:, None], (*margins.shape[:-1], 1))
    others = margins.copy()
    np.put_along_axis(others, places, -np.inf, axis=-1)
    right: NDArray[np.float64] = np.take_along_axis(margins, places, axis=-1)[..., 0]
    right -= others.max(axis=-1)
    return right


def ledger_of(names: tuple[str, ...], entries: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """The columns of a ledger by name, for one class or for each."""
    columns = {name: entries[:, :, j].T.copy() for j, name in enumerate(names)}
    if "removed" in columns:
        columns["removed"] = columns["removed"].astype(np.int64)
    return {name: values[:, 0] if values.shape[1] == 1 else values for name, values in columns.items()}


def largest_square(X: Any) -> float:
    """A number that the squared norm of no row exceeds."""
    with np.errstate(over="ignore"):
        # Not by BLAS, whose threads would spin on for a while.
        return float(np.einsum("i,i", X.data, X.data) if issparse(X) else np.einsum("ij,ij->i", X, X).max())
