"""Load a data set from the folder given by BUDGETRON_DATA, or from OpenML."""

from __future__ import annotations

import importlib.util
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from budgetron.datasets._catalogue import CATALOGUE, Entry, Part

__all__ = [
    "VARIABLE",
    "Bunch",
    "DataNotFoundError",
    "Dataset",
    "LabelArray",
    "Matrix",
    "Pair",
    "PathLike",
    "UnexpectedDataError",
    "choose",
    "find",
    "float_dtype",
    "labels",
    "load",
    "numbers",
    "reading",
    "texts",
]

VARIABLE = "BUDGETRON_DATA"

# Rows: an array or a CSR matrix. A bunch is what scikit-learn's `fetch_openml` returns.
Matrix: TypeAlias = Any
LabelArray: TypeAlias = NDArray[Any]
Bunch: TypeAlias = Any
Pair: TypeAlias = tuple[Matrix, LabelArray]
PathLike: TypeAlias = str | os.PathLike[str]


class DataNotFoundError(OSError):
    """The data set is not in the folder, and OpenML does not provide it."""


class UnexpectedDataError(ValueError):
    """The file is damaged, or it is not the data set that the loader expects."""


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set. Unpacks like a pair: `X, y = dataset`.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows, in the published order unless the loader says otherwise.
    y : ndarray of shape (n,)
        The labels.
    name : str
    feature_names : tuple of str, or None
    source : str
        "folder" or "OpenML".
    description : str
        What it is and its source, in one line.
    """

    X: Matrix
    y: LabelArray
    name: str
    feature_names: tuple[str, ...] | None
    source: str
    description: str

    def __iter__(self) -> Iterator[Matrix]:
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        rows, features = self.X.shape
        return f"Dataset({self.name!r}, {rows:,} x {features}, source={self.source!r})"


def load(
    name: str,
    subset: str,
    data_home: PathLike | None,
    read: Callable[..., Pair],
    convert: Callable[[Bunch], Pair],
    finish: Callable[[Matrix], Matrix],
    feature_names: tuple[str, ...] | None = None,
    *,
    width: int | None = None,
    strict: bool = False,
) -> Dataset:
    """Return the rows and labels of a subset.

    `read(part, *paths)` reads the files of one part. `convert(bunch)` converts all rows of OpenML to the same
    form, in the order of the parts. `finish` converts X to its final form; it comes last, because parts are
    smaller before. `width` is the number of columns before `finish`, if it differs. With `strict`, the
    order of the parts on OpenML is checked even if all of them are requested.
    """
    entry = CATALOGUE[name]
    chosen = choose(entry, subset)
    paths = {part: find(entry.parts[part]) for part in chosen}
    width = width or entry.features
    pairs = []
    if all(paths.values()):
        source = "folder"
        for part in chosen:
            X, y = read(part, *paths[part])
            _check(entry, (part,), width, X, y, " and ".join(map(str, paths[part])))
            pairs.append((X, y))
    else:
        source = "OpenML"
        X, y = _fetch(entry, chosen, data_home, convert)
        where = f"{_openml(entry)} on OpenML"
        if chosen == tuple(entry.parts) and not strict:
            _check(entry, chosen, width, X, y, where)
            pairs.append((X, y))
        else:
            ends = np.cumsum([part.rows for part in entry.parts.values()]).tolist()
            for part, end in zip(entry.parts, ends, strict=True):
                rows = slice(end - entry.parts[part].rows, end)
                if part in chosen:
                    _check(entry, (part,), width, X[rows], y[rows], f"the {part} part of {where}")
                    pairs.append((X[rows], y[rows]))
    X = finish(_join([X for X, _ in pairs]))
    y = pairs[0][1] if len(pairs) == 1 else np.concatenate([y for _, y in pairs])
    return Dataset(X, y, name, feature_names, source, entry.description)


def choose(entry: Entry, subset: str) -> tuple[str, ...]:
    """Return the parts of a subset."""
    if subset == "all":
        return tuple(entry.parts)
    if subset in entry.parts:
        return (subset,)
    raise ValueError(f"subset must be {', '.join(map(repr, entry.parts))} or 'all', not {subset!r}")


def find(part: Part) -> tuple[Path, ...]:
    """Return the files of the part in the folder; none if one is missing."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return ()
    found = []
    for file in part.files:
        paths = [Path(folder) / f"{file}{suffix}" for suffix in part.suffixes]
        found.append(next((path for path in paths if path.is_file()), None))
    return tuple(path for path in found if path) if all(found) else ()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors into an `UnexpectedDataError` that names the file."""
    try:
        yield
    except (
        OSError,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        zlib.error,
        lzma.LZMAError,
        BadZipFile,
    ) as error:
        raise UnexpectedDataError(
            f"{path} is damaged or not in the expected format ({error}). Replace it, or remove it to "
            "load the data set from OpenML."
        ) from error


def _check(entry: Entry, parts: tuple[str, ...], width: int, X: Matrix, y: LabelArray, where: str) -> None:
    """Raise `UnexpectedDataError` unless shape and class counts are the published ones.

    Anyone can upload a data set to OpenML; class counts are a cheap check that it is the right one.
    """
    rows = sum(entry.parts[part].rows for part in parts)
    if X.shape != (rows, width) or y.shape != (rows,):
        shape = " x ".join(f"{n:,}" for n in X.shape)
        raise UnexpectedDataError(
            f"{where}: {shape} with {len(y):,} labels, but {entry.name} has {rows:,} x {width}"
        )
    known = [part.counts for part in map(entry.parts.__getitem__, parts) if part.counts]
    expected = [sum(counts) for counts in zip(*known, strict=True)]
    got = np.unique(y, return_counts=True)[1].tolist()
    if len(got) != entry.classes or (expected and got != expected):
        raise UnexpectedDataError(
            f"{where}: its classes have {got} rows, but {entry.name} has {expected or entry.classes}"
        )


def float_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the type of the rows as a dtype; it must be float32 or float64."""
    result = np.dtype(dtype)
    if result not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, not {result}")
    return result


# ---------------------------------------------------------------------- data sets of OpenML


def numbers(bunch: Bunch) -> NDArray[np.float64]:
    """Return the columns as numbers; the levels of nominal columns must be text of numbers."""
    if sparse.issparse(bunch.data):
        dense: NDArray[np.float64] = bunch.data.toarray()
        return dense
    X = np.array(bunch.data, dtype=np.float64)  # one parser returns nominal columns as text ...
    for name, levels in _coded(bunch).items():  # ... and the other as codes of their levels
        column = X[:, bunch.feature_names.index(name)]
        column[:] = np.asarray(levels, dtype=np.float64)[column.astype(int)]
    return X


def texts(bunch: Bunch, column: int) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
    """Return the sorted levels of a column, and the index of each row's level; "?" if missing."""
    values = bunch.data[:, column]
    coded = _coded(bunch).get(bunch.feature_names[column])
    # There are few levels and many rows, so each distinct value is converted to text once.
    seen: dict[object, int] = {}
    codes = np.fromiter(
        (seen.setdefault(value, len(seen)) for value in values.tolist()), np.intp, len(values)
    )
    names = [_text(value, coded) for value in seen]
    levels, rank = np.unique(names, return_inverse=True)
    return levels, rank[codes]


def labels(y: ArrayLike) -> NDArray[np.int64]:
    """Return labels, given as text or numbers, as integers."""
    return np.asarray(y).astype(np.float64).astype(np.int64)


def _text(value: object, coded: list[str] | None) -> str:
    if value is None or value != value:
        return "?"
    if coded is not None and isinstance(value, int | float):
        return str(coded[int(value)]).strip()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _coded(bunch: Bunch) -> dict[str, list[str]]:
    """Return the levels of columns that hold codes; only the parser without pandas returns codes."""
    if bunch.data.dtype == object:
        return {}
    return {name: levels for name, levels in (bunch.categories or {}).items() if name in bunch.feature_names}


def _fetch(
    entry: Entry, chosen: tuple[str, ...], data_home: PathLike | None, convert: Callable[[Bunch], Pair]
) -> Pair:
    from sklearn import datasets as sklearn_datasets  # takes long to import

    # "auto" is many times faster for dense data, but needs pandas, which is not a dependency.
    parser = "auto" if importlib.util.find_spec("pandas") else "liac-arff"
    try:
        bunch = sklearn_datasets.fetch_openml(
            **entry.openml, data_home=data_home, as_frame=False, parser=parser, cache=True
        )
    except (OSError, HTTPException, ValueError) as error:
        raise DataNotFoundError(_not_found(entry, chosen, error)) from error
    try:
        return convert(bunch)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise UnexpectedDataError(
            f"{_openml(entry)} on OpenML does not have the form that {entry.loader} expects ({error})"
        ) from error


def _not_found(entry: Entry, chosen: tuple[str, ...], error: Exception) -> str:
    parts = [entry.parts[part] for part in chosen]
    files = list(dict.fromkeys(f"{file}{part.suffixes[-1]}" for part in parts for file in part.files))
    folder = os.environ.get(VARIABLE)
    looked = f"{folder} ({VARIABLE}) has no {' and '.join(files)}" if folder else f"{VARIABLE} is not set"
    return (
        f"{entry.name} was not found: {looked}, and it could not be downloaded from OpenML "
        f"({_openml(entry)}): {error}. "
        f"Connect to the internet, or set {VARIABLE} to a folder with {' and '.join(files)}."
    )


def _openml(entry: Entry) -> str:
    if "data_id" in entry.openml:
        return f"data set {entry.openml['data_id']}"
    return f"data set {entry.openml['name']}, version {entry.openml['version']}"


def _join(blocks: list[Matrix]) -> Matrix:
    if len(blocks) == 1:
        return blocks[0]
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)
