"""Errors about values of features that are infinite or too large, which name the value and its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._util.sparse import check_sparse
from budgetron._util.types import Matrix, Row, Rows

__all__ = [
    "LARGEST",
    "LargeValueError",
    "name_large_value",
    "refuse_infinity",
    "refuse_large_features",
    "refuse_large_row",
    "refuse_large_squares",
]

# Squares of larger numbers might overflow, or sums of squares.
LARGEST = {"float32": 1e17, "float64": 1e75}


class LargeValueError(ValueError):
    """A feature has a value that is too large to compute with.

    Parameters
    ----------
    feature : int
        Its number.
    row : int or None
        The row of the batch; None if there is only one.
    value : object
    reason : str
        Why the value is too large, and what to do.
    name : str, optional
        What the feature is called in the message; by default its number.
    """

    def __init__(
        self, feature: int, row: int | None, value: object, reason: str, name: str | None = None
    ) -> None:
        called = f"feature {feature}" if name is None else f"feature {name}"
        place = called if row is None else f"{called} of row {row}"
        try:
            shown = f"{float(value):g}"  # type: ignore[arg-type]  # a number
        except OverflowError:
            shown = "an integer beyond 1.8e308"
        super().__init__(f"{place} is {shown}, which is too large{reason}")
        self.feature, self.row, self.value, self.reason, self.name = feature, row, value, reason, name

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors of other processes are pickled; the message alone could not make the error again.
        return LargeValueError, (self.feature, self.row, self.value, self.reason, self.name)

    def at(self, *, name: str | None = None, after: int = 0) -> LargeValueError:
        """Return the error with a name of the feature, and with the number of a row after so many others."""
        row = None if self.row is None else after + self.row
        return LargeValueError(self.feature, row, self.value, self.reason, name)

    def without_row(self) -> LargeValueError:
        """Return the error for a row that is the only one."""
        return LargeValueError(self.feature, None, self.value, self.reason)


def refuse_infinity(X: Rows, dtype: np.dtype[Any]) -> None:
    """Raise `ValueError` for the first value that is infinite, or that is infinite in this type."""
    if issparse(X):
        check_sparse(X)  # the error to explain may be one about the index arrays
    values, places = _cells(X)
    plain = np.array([_as_float(value) for value in values]) if values.dtype.kind == "O" else values
    if plain.dtype.kind not in "fiub":
        return
    with np.errstate(over="ignore"):
        infinite = np.flatnonzero(np.isinf(plain.astype(dtype)))
    if not len(infinite):
        return
    row, feature = places(int(infinite[0]))
    value = values[infinite[0]]
    with suppress(OverflowError):  # of an integer
        if np.isinf(float(value)):
            raise ValueError(f"X must be finite, without infinity; feature {feature} of row {row} is {value}")
    reason = f" for {dtype}; scale the features"
    if dtype == np.float32:
        reason += ", or start with rows of float64"
    raise LargeValueError(feature, row, value, reason)


def refuse_large_row(x: Row, dtype: np.dtype[Any], error: ValueError) -> None:
    """Raise an error that names a value of one row, if it explains the error."""
    try:
        if issparse(x):
            check_sparse(x)
        row = x.reshape((1, -1)) if issparse(x) else np.reshape(x, (1, -1))
        if row.dtype.kind not in "fiub":
            return
        refuse_infinity(row, dtype)
        with name_large_value(row.astype(dtype)):
            raise error
    except LargeValueError as found:
        raise found.without_row() from None
    except (ValueError, TypeError):  # nothing to add
        return


def refuse_large_squares(X: Matrix) -> None:
    """Raise `ValueError` if the squared norm of a checked row is infinite in its type."""
    with np.errstate(over="ignore"):
        squares = X.multiply(X).sum(axis=1) if issparse(X) else np.einsum("ij,ij->i", X, X)
    infinite = np.flatnonzero(~np.isfinite(np.asarray(squares)))
    if len(infinite):
        row = int(infinite[0])
        values, places = _cells(X[row : row + 1])
        largest = int(np.abs(values).argmax())
        reason = ": the squared norm of the row is not finite; scale the features"
        raise LargeValueError(places(largest)[1], row, values[largest], reason)


def refuse_large_features(X: Matrix, limit: float) -> None:
    """Raise `ValueError` if a value of checked rows is not below this limit."""
    values, places = _cells(X)
    with np.errstate(over="ignore"):  # all of float32 is below the limit
        large = np.flatnonzero(np.abs(values) >= limit)
    if len(large):
        row, feature = places(int(large[0]))
        reason = f": absolute values of features must be below {limit:g}; scale them"
        raise LargeValueError(feature, row, values[large[0]], reason)


@contextmanager
def name_large_value(X: Matrix) -> Iterator[None]:
    """If rounds on these rows, or predictions, fail because a value is too large, name the value."""
    try:
        yield
    except LargeValueError:
        raise
    except ValueError as error:
        values, places = _cells(X)
        if values.size:
            largest = int(np.abs(values).argmax())
            if abs(values[largest]) > LARGEST[values.dtype.name]:
                row, feature = places(largest)
                raise LargeValueError(feature, row, values[largest], f": {error}") from None
        raise


def _cells(X: Rows) -> tuple[NDArray[Any], Any]:
    """Return the values of rows, and a function that gives the row and the feature of a value."""
    if issparse(X):
        stored = X.tocoo()
        return stored.data, lambda k: (int(stored.coords[0][k]), int(stored.coords[1][k]))
    values = np.asarray(X)
    return values.reshape(-1), lambda k: divmod(k, values.shape[-1])


def _as_float(value: object) -> float:
    """Return a number as a float; infinity if it is too large, and 0 for what is not a number."""
    try:
        return float(value)  # type: ignore[arg-type]  # whatever is not a number raises
    except OverflowError:
        return float("inf")
    except (TypeError, ValueError):
        return 0.0
