"""Values of arrow tables: categories and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from budgetron.streams._columns import OLD_MISSING_TEXTS, Category
from budgetron.streams._errors import StreamError

__all__ = [
    "ArrowColumn",
    "ArrowTable",
    "ArrowType",
    "Piece",
    "Schema",
    "category",
    "is_dictionary",
    "is_number",
    "is_string",
    "is_temporal",
    "is_text",
    "label_codes",
    "labels_in",
    "level_of",
    "whole",
]

# pyarrow has no types. A schema maps the names of columns to their arrow types.
ArrowTable: TypeAlias = Any
ArrowColumn: TypeAlias = Any
ArrowType: TypeAlias = Any
Schema: TypeAlias = dict[str, ArrowType]

_TRUTH = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}
MAX_LABEL = 1000  # characters; an array of labels has the width of the longest for every row


class Piece(NamedTuple):
    """Some rows as an arrow table, and a function that says where a row is, for messages."""

    table: ArrowTable
    locate: Callable[[int], str]


def is_number(kind: ArrowType) -> bool:
    """Return whether a column holds numbers."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def is_string(kind: ArrowType) -> bool:
    """Return whether a column holds text."""
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_text(kind: ArrowType) -> bool:
    """Return whether a column holds text, perhaps as indices into a dictionary."""
    return is_string(kind.value_type if is_dictionary(kind) else kind)


def is_dictionary(kind: ArrowType) -> bool:
    """Return whether a column holds indices into a dictionary."""
    from pyarrow import types

    return bool(types.is_dictionary(kind))


def is_temporal(kind: ArrowType) -> bool:
    """Return whether a column holds dates or times."""
    from pyarrow import types

    return bool(types.is_temporal(kind))


def whole(column: ArrowColumn) -> ArrowColumn:
    """Return a column as one array; arrow may store it in chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _codes(piece: Piece, column: ArrowColumn) -> tuple[NDArray[np.int64], list[object]]:
    """Return the index of each row's value, -1 if missing, and the values."""
    import pyarrow as pa

    array = whole(column)
    if not pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type):
            array = array.cast(pa.large_string())
        array = array.dictionary_encode()
    indices = array.indices
    found = indices.to_numpy(zero_copy_only=False)  # with missing values, floats
    codes = (
        np.where(np.isnan(found), -1, found).astype(np.int64)
        if indices.null_count
        else found.astype(np.int64)
    )
    dictionary = array.dictionary
    if len(dictionary) > len(array):  # a few rows of a column with very many levels
        present = np.unique(codes[codes >= 0])
        codes = np.where(codes < 0, -1, np.searchsorted(present, codes))
        dictionary = dictionary.take(pa.array(present))
    try:
        values = dictionary.to_pylist()
    except UnicodeDecodeError as error:
        problem = f"{piece.locate(0)}: text in this row or a later one is not UTF-8"
        raise StreamError(f"{problem}; write the file with valid text") from error
    gaps = [i for i, value in enumerate(values) if value is None or value != value]
    return (np.where(np.isin(codes, gaps), -1, codes) if gaps else codes), values


def label_codes(piece: Piece, target: str) -> tuple[NDArray[np.int64], list[object]]:
    """Return the index of each row's label, -1 if missing, and the labels.

    The labels "-" and "?" are not missing, unlike such values in other columns: they may be classes.
    """
    codes, values = _codes(piece, piece.table[target])
    gaps = [i for i, value in enumerate(values) if isinstance(value, str) and value in OLD_MISSING_TEXTS]
    return (np.where(np.isin(codes, gaps), -1, codes) if gaps else codes), values


def labels_in(piece: Piece, target: str) -> list[object]:
    """Return the labels that occur; raise an error if one is missing."""
    codes, values = label_codes(piece, target)
    if (gap := codes < 0).any():
        raise StreamError(f"{piece.locate(int(gap.argmax()))}: the label is missing; every row needs a label")
    present = np.unique(codes)
    for code in present:
        if problem := _label_problem(str(values[code])):
            raise StreamError(f"{piece.locate(int((codes == code).argmax()))}: {problem}")
    return [values[code] for code in present]


def _label_problem(label: str) -> str:
    """Return why a label cannot be stored in an array; empty if it can."""
    if len(label) > MAX_LABEL:
        return f"a label of {len(label):,} characters, above {MAX_LABEL:,}; choose another column"
    return "a label that ends with a null character; remove this character" if label.endswith("\0") else ""


def category(piece: Piece, column: ArrowColumn, na_values: frozenset[str]) -> Category:
    """Return a categorical column with its levels as text."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type) and pa.types.is_temporal(column.type):
        column = column.cast(pa.string())
    codes, values = _codes(piece, column)
    levels = [level_of(value) for value in values]
    gaps = [i for i, level in enumerate(levels) if level.strip() in na_values]
    return (np.where(np.isin(codes, gaps), -1, codes) if gaps else codes), levels


def level_of(value: object) -> str:
    """Return the level of a value; the same in every format: "true" and "1", not "True" and "1.0"."""
    if isinstance(value, str):
        return _TRUTH.get(value, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
