"""The input and the results of a batch: checked rows, encoded labels, margins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.utils.validation import validate_data

from budgetron._util.numbers import largest
from budgetron._util.sparse import check_sparse
from budgetron._util.types import Codes, Floats, Ints, Label, Labels, Matrix, Rows

__all__ = [
    "Batch",
    "are_integers",
    "canonical",
    "check_classes",
    "check_same_classes",
    "encode",
    "joined_labels",
    "label_array",
    "largest_square",
    "ledger_columns",
    "predicted_codes",
    "refuse_unknown",
    "signed_margin",
    "validated",
]


@dataclass(frozen=True)
class Batch:
    """The rounds of a batch: rows and labels, and arrays for the results of each output.

    Attributes
    ----------
    X : matrix of shape (n, d)
    square : float
        An upper bound of the squared norms of the rows.
    codes : ndarray of shape (n,)
        The labels, as indices into the classes; empty in a regression.
    labels : list of ndarray of shape (n,), float64
        For each hypothesis the labels as it takes them: -1.0 and +1.0, or the codes if it has all outputs. In
        a regression the targets.
    margins : ndarray of shape (n_outputs, n), or None
    sizes, ledger : ndarray of shape (n_hypotheses, n) or (n_hypotheses, n, n_entries), or None
        To be filled by the rounds, if given.
    importances : ndarray of shape (n,), or None
        Weights of the rows; None if all are 1.
    """

    X: Matrix
    square: float
    codes: Codes
    labels: list[Floats]
    margins: Floats | None
    sizes: Ints | None
    ledger: Floats | None
    importances: Floats | None = None

    def __len__(self) -> int:
        return len(self.labels[0])

    def part(self, rows: slice) -> Batch:
        """Return some of the rounds, with results in the same arrays."""
        return Batch(
            self.X[rows],
            self.square,
            self.codes[rows],
            [labels[rows] for labels in self.labels],
            None if self.margins is None else self.margins[:, rows],
            None if self.sizes is None else self.sizes[:, rows],
            None if self.ledger is None else self.ledger[:, rows],
            None if self.importances is None else self.importances[rows],
        )


def refuse_unknown(model: object, method: str, unknown: Mapping[str, object]) -> None:
    """Raise `TypeError` for keywords that a method does not have; for weights, say which learners do."""
    if "sample_weight" in unknown:
        raise TypeError(
            f"{type(model).__name__} does not support sample_weight. BudgetClassifier, "
            "SecondOrderProjectron, PassiveAggressive, linear.AROW, linear.PassiveAggressive and "
            "linear.OnlineSVM do"
        )
    for name in unknown:
        raise TypeError(f"{type(model).__name__}.{method}() got an unexpected keyword argument {name!r}")


def validated(
    model: Any, X: Rows, y: ArrayLike | Literal["no_validation"] = "no_validation", **options: Any
) -> Any:
    """Return the rows, and the labels if given, as `validate_data` of scikit-learn does with these options.

    Sparse rows are returned as a CSR matrix in canonical form. Their index arrays are checked before
    scikit-learn and SciPy use them.
    """
    ordered = issparse(X) and check_sparse(X)
    if _need_no_conversion(model, X, y, **options):
        plain = canonical(X, ordered) if issparse(X) else X
        if options.get("reset", True):
            model.n_features_in_ = X.shape[1]
        return plain if isinstance(y, str) else (plain, y)
    # A value too large for the type becomes infinite, and infinite values are refused.
    with np.errstate(over="ignore", invalid="ignore"):
        found = validate_data(model, X, y, accept_sparse="csr", **options)
    rows = found[0] if isinstance(found, tuple) else found
    if issparse(rows):
        rows = canonical(rows, ordered if rows is X else check_sparse(rows))
    return (rows, found[1]) if isinstance(found, tuple) else rows


def _need_no_conversion(
    model: object,
    X: Rows,
    y: ArrayLike | Literal["no_validation"],
    *,
    reset: bool = True,
    dtype: Any = None,
    order: str | None = None,
    **options: Any,
) -> bool:
    """Return whether rows and labels are arrays that `validate_data` would return as they are.

    scikit-learn's checks take as long as fifty rounds of a fast learner, and the first ones of a process
    much longer. This is the frequent case: plain arrays, or CSR rows whose index arrays were checked.
    Everything else, and everything that is wrong, is left to scikit-learn.
    """
    if order != "C" or options or type(X) not in (np.ndarray, csr_matrix, csr_array):
        return False
    dtypes = dtype if isinstance(dtype, tuple) else (dtype,)
    if X.ndim != 2 or X.dtype not in dtypes or hasattr(model, "feature_names_in_"):
        return False
    if not X.shape[0] or not X.shape[1]:
        return False
    if not reset and X.shape[1] != getattr(model, "n_features_in_", None):
        return False
    values = X if isinstance(X, np.ndarray) else X.data
    if type(values) is not np.ndarray or not values.flags.c_contiguous or not largest(values) < np.inf:
        return False
    if isinstance(y, str):
        return True
    return type(y) is np.ndarray and y.shape == X.shape[:1] and y.dtype.kind in "iubU"


def canonical(X: Matrix, ordered: bool) -> Matrix:
    """Return a checked CSR matrix in canonical form; `ordered` says that it has this form already."""
    if not ordered:
        X = X.copy()
        X.has_sorted_indices = X.has_canonical_format = False  # the cached flags may be out of date
        X.sum_duplicates()
    return X


def label_array(labels: ArrayLike) -> ArrayLike:
    """Return labels; integers that NumPy would convert to floats or objects, as integers if they fit."""
    if isinstance(labels, list | tuple):
        found = np.asarray(labels)
        values = list(labels) if found.ndim == 1 and found.dtype.kind in "fO" else []
    else:
        found = labels if isinstance(labels, np.ndarray) else np.asarray(labels)
        values = found.tolist() if found.ndim == 1 and found.dtype.kind == "O" else []
    if not values or not all(isinstance(value, int | np.integer) for value in values):
        return labels
    least, most = min(map(int, values)), max(map(int, values))
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= least and most <= np.iinfo(dtype).max:
            return np.array(values, dtype)
    return np.array([int(value) for value in values], object)


def joined_labels(classes: Labels, more: list[Label]) -> Labels:
    """Return the classes, and then the other labels, without loss of digits."""
    labels = [*classes.tolist(), *more]
    return np.asarray(label_array(np.array(labels, object) if classes.dtype == object else labels))


def are_integers(labels: Labels) -> bool:
    """Return whether labels are integers or truth values, also those that no type of NumPy can hold."""
    if labels.dtype.kind == "O":
        return all(isinstance(label, int) for label in labels.tolist())
    return labels.dtype.kind in "biu"


def check_classes(model: object, classes: ArrayLike | None) -> Labels:
    """Return the classes, sorted; raise `ValueError` if there are fewer than two."""
    given = np.asarray(None if classes is None else label_array(classes))
    if given.ndim == 1 and len(given) > 1 and given.dtype.kind in "biufU" and np.all(given[1:] > given[:-1]):
        return given.copy()
    unique = np.unique(given)
    if len(unique) < 2:
        raise ValueError(
            f"{type(model).__name__} needs at least two classes; got 1 class: {unique.tolist()}. If others "
            "will follow, list all of them in classes"
        )
    return unique


def check_same_classes(model: object, classes: ArrayLike, known: Labels) -> None:
    """Raise `ValueError` if the classes are not those of the first call."""
    found = check_classes(model, classes).tolist()
    if found != known.tolist():
        raise ValueError(f"classes are {known.tolist()} since the first call; got {found}")


def encode(y: Labels, classes: Labels) -> Codes:
    """Return the index of each label in the classes."""
    if _compares_exactly(y, classes) and len(classes) == 2:  # faster than a search
        second = np.asarray(y == classes[1])
        codes, unknown = second.astype(np.intp), ~(second | (y == classes[0]))
    elif _compares_exactly(y, classes):
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        unknown = classes[codes] != y
    else:  # by Python's equality: NumPy would compare the number 1 and the text "1" as text
        known = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([known.get(label, -1) for label in y.tolist()], np.intp)
        unknown = codes < 0
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise ValueError(
            f"y must contain only the classes {classes.tolist()}; row {row} has {y.tolist()[row]!r}"
        )
    return codes


def _compares_exactly(y: Labels, classes: Labels) -> bool:
    """Return whether NumPy compares these labels as numbers, and without making floats of large integers."""
    types = (y.dtype, classes.dtype)
    if not all(dtype.kind in "biuf" for dtype in types):
        return False
    return np.result_type(*types).kind != "f" or not any(d.kind in "iu" and d.itemsize == 8 for d in types)


def signed_margin(margins: Floats, codes: Codes, *, multiclass: bool) -> Floats:
    """Return y f(x), or with more classes the margin of the right class minus the largest other one.

    A round is a mistake if this is not above 0. The rows are the last axis of `margins`; with more than two
    classes they are the last but one, and the classes the last.
    """
    if not multiclass:
        return np.where(codes == 1, margins, -margins)
    places = np.broadcast_to(codes[:, None], (*margins.shape[:-1], 1))
    others = margins.copy()
    np.put_along_axis(others, places, -np.inf, axis=-1)
    right: Floats = np.take_along_axis(margins, places, axis=-1)[..., 0]
    with np.errstate(over="ignore"):  # an infinite difference has the right sign
        right -= others.max(axis=-1)
    return right


def predicted_codes(margins: Floats) -> Codes:
    """Return the index of the predicted class, given margins of shape (n,) or (n, n_classes).

    This is the one tie rule: of two classes the second needs a margin above 0, and of several with equal
    margins the first is predicted.
    """
    return margins.argmax(axis=1) if margins.ndim == 2 else (margins > 0.0).astype(np.intp)


def ledger_columns(names: tuple[str, ...], entries: Floats) -> dict[str, Floats | Ints]:
    """Return the columns of a ledger by name: one-dimensional for one output, else with a column for each.

    Entries with the same name are the columns of one table, of one output.
    """
    columns: dict[str, Floats | Ints] = {}
    for name in dict.fromkeys(names):
        places = [j for j, other in enumerate(names) if other == name]
        values: Floats | Ints = (
            entries[0][:, places] if len(places) > 1 else entries[:, :, places[0]].T.copy()
        )
        if name == "removed":
            values = values.astype(np.int64)
        columns[name] = values[:, 0] if values.shape[1] == 1 else values
    return columns


def largest_square(X: Matrix) -> float:
    """Return an upper bound of the squared norms of the rows."""
    with np.errstate(over="ignore"):
        # Not by BLAS, whose threads would keep spinning for a while.
        return float(np.einsum("i,i", X.data, X.data) if issparse(X) else np.einsum("ij,ij->i", X, X).max())
