"""Columns of a table become features, using only the rows seen so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_matrix, hstack

from budgetron.streams import _times
from budgetron.streams._columns import MAX_WIDTH, MISSING_TEXTS, OLD_MISSING_TEXTS, Category, Column, Columns
from budgetron.streams._complete import HASHED, Rule, only_text
from budgetron.streams._errors import Advice, Fault
from budgetron.streams._running import Floats, Running, State
from budgetron.streams._words import hashed_words

__all__ = ["Category", "Columns", "Encoder"]

# Dense rows, or CSR.
Rows: TypeAlias = Floats | csr_matrix

MAX_NUMBER = float(np.finfo(np.float64).max)
MAX_SCALED_NUMBER = 1e150  # its square must be finite


class Encoder:
    """Turn numbers and categories into features, row by row.

    The features of a row depend only on that row, on earlier rows, and on the first block.

    - A numeric column stays one column. With `scale` it is standardised by the mean and standard deviation of
      the rows up to and including the current one. While all values are equal, the feature is 0.
    - A date or time becomes the days since the first one (``name.days``, a number like any other), and sine
      and cosine of the hour (``name.hour_sin``, ``name.hour_cos``) and of the weekday (``name.weekday_sin``,
      ``name.weekday_cos``). Dates without a time have no hour, and times without a date only an hour. Dates
      that cover more than ten years in the first rows, such as dates of birth, have only the days.
    - A categorical column with at most 64 levels in the first rows becomes one column per level
      (``name=level``, in sorted order), 0 or 1, and one more for any other level (``name=?``).
    - With more levels, the most frequent levels have columns of their own (``name=level``), and all others
      are hashed into 64 columns (``name#0``...) by the CRC-32 of the column's name and the level. Levels that
      occur at least twice in the first rows get a column, until the table has 960 features. If `hash_columns`
      is given, all levels are hashed into this number of columns.
    - Text of several words becomes the frequencies of its words, hashed into 128 columns (or `hash_columns`)
      and divided by their norm. If there is nothing but text, it is hashed into 2**18 columns, and rows are
      sparse (CSR).
    - The first rows are the first 4096, or those in the first megabyte of text if these are fewer.
    - Columns keep the order of the file. `constant` appends a column of ones.
    - A missing number becomes the mean of the earlier rows (0 if there are none) and does not change the mean
      and the deviation. If the first rows had missing values in this column, one more feature
      (``name=missing``) is 1 where the value is missing, and otherwise 0. The same applies to dates, whose
      sine and cosine are then 0. A missing category becomes the level ``name=missing`` if the first rows had
      missing values too, and ``name=?`` otherwise. With ``missing="error"``, missing values are an error.

    Parameters
    ----------
    encode : {"auto", "onehot", "hash"}, default="auto"
        How categorical columns are encoded; "auto" is the rule above.
    hash_columns : int, optional
        The number of columns into which a column is hashed; by default the rules above.
    scale : bool, default=True
        Whether numbers are standardised.
    missing : {"mean", "error"}, default="mean"
    constant : bool, default=False
    na_values : iterable of str, optional
        Texts that mean a missing value, in addition to the usual ones: empty text, ``?``, ``-``, ``NA``,
        ``N/A``, ``NaN``, ``null``, ``None`` and variants of these. A number is also compared as a number.

    Notes
    -----
    The cost of a row is O(features). An encoder restored from its `state` encodes rows as the original does.
    """

    def __init__(
        self,
        *,
        encode: str = "auto",
        hash_columns: int | None = None,
        scale: bool = True,
        missing: str = "mean",
        constant: bool = False,
        na_values: Iterable[str] = (),
    ) -> None:
        if encode not in ("auto", "onehot", "hash"):
            raise ValueError(f'encode must be "auto", "onehot" or "hash"; got {encode!r}')
        if missing not in ("error", "mean"):
            raise ValueError(f'missing must be "error" or "mean"; got {missing!r}')
        if hash_columns is not None and (
            int(hash_columns) != hash_columns or not 1 <= hash_columns <= MAX_WIDTH
        ):
            raise ValueError(f"hash_columns must be an integer from 1 to {MAX_WIDTH:,}; got {hash_columns}")
        self.encode, self.hash_columns = encode, None if hash_columns is None else int(hash_columns)
        self.scale, self.missing, self.constant = bool(scale), missing, bool(constant)
        given = [na_values] if isinstance(na_values, str) else list(na_values)
        self.na_values: tuple[str, ...] = (*MISSING_TEXTS, *(str(value).strip() for value in given))
        self._columns: list[Column] = []
        self._running = Running(0)

    def __repr__(self) -> str:
        return f"<Encoder: {self.summary()}>"

    def summary(self) -> str:
        """Return one line that says how each column is encoded."""
        words = {"number": "numeric", "time": "time", "onehot": "one-hot", "hash": "hashed", "words": "text"}
        words["none"] = "not used"
        kinds = {kind: [c.name for c in self._columns if c.kind == kind] for kind in words}
        parts = [
            f"{len(names)} {words[kind]} ({', '.join(names if len(names) <= 6 else [*names[:5], '...'])})"
            for kind, names in kinds.items()
            if names
        ]
        constant = ["constant"] if self.constant else []
        return ", ".join([*parts[:-1], *constant, parts[-1]] if kinds["none"] else [*parts, *constant])

    def describe(self) -> list[dict[str, str | int]]:
        """Return for each column its name, how it is read, its number of features, and a remark."""
        return [
            {
                "column": column.name,
                "read_as": column.description(),
                "features": column.n_features,
                "remark": column.reason,
            }
            for column in self._columns
        ]

    @property
    def columns(self) -> list[Column]:
        """How each column of the table is read, in order."""
        return list(self._columns)

    @property
    def feature_names(self) -> list[str]:
        """The names of the features, in order."""
        names = [name for column in self._columns for name in column.features()]
        return [*names, "constant"] if self.constant else names

    @property
    def n_features(self) -> int:
        """The number of features."""
        return sum(column.n_features for column in self._columns) + self.constant

    @property
    def sparse(self) -> bool:
        """Whether rows are sparse: if all columns that are used are text."""
        return only_text(self._columns)

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """The current mean and deviation of each numeric column: its feature is (x - mean) / deviation.

        Rows to predict are encoded by these. A column that never changed has an infinite deviation, so that
        its feature is 0. Without `scale` they are 0 and 1. For dates, x is the elapsed time in days.
        """
        names = self._numeric_names
        if not self.scale:
            return dict.fromkeys(names, (0.0, 1.0))
        deviations = np.where(self._running.std == 0.0, np.inf, self._running.std)
        return dict(
            zip(names, zip(self._running.mean.tolist(), deviations.tolist(), strict=True), strict=True)
        )

    @property
    def _numeric_names(self) -> list[str]:
        return [column.name for column in self._columns if column.has_number]

    def start(self, first: Columns, decided: Sequence[Column] | None = None) -> Encoder:
        """Determine the features from the first rows of a table; return self.

        `decided` says how each column is read. By default, numbers are numbers and the rest are categories.
        """
        if decided is None:
            decided = [
                Column(name, "number" if isinstance(values, np.ndarray) else "hash")
                for name, values in first.items()
            ]
        rule = Rule(self.encode, self.hash_columns, self.missing == "mean")
        self._columns = rule.completed(decided, first, self.constant)
        return self.reset()

    def reset(self) -> Encoder:
        """Forget the mean and deviation, but keep the features; return self."""
        self._running = Running(len(self._numeric_names))
        return self

    def transform(self, block: Columns, learn: bool = True) -> Rows:
        """Return the features of a block of rows.

        Parameters
        ----------
        block : dict of str to ndarray or (codes, levels)
            For each column the numbers, NaN if missing, or the index of each row's level, -1 if missing.
        learn : bool, default=True
            Whether the rows update the running mean and deviation.
        """
        if self.sparse:
            return self._sparse_rows(block)
        features, numbers = self._split(block)
        scaled = self._scaled(numbers, learn) if self.scale else self._filled(numbers, learn, self._running)
        return self._joined(features, scaled)

    def transform_both(self, block: Columns, learn: bool = True) -> tuple[Rows, Rows]:
        """Return the features of a block of rows, as `transform` does, and the same without scaling."""
        if not self.scale or self.sparse:
            unscaled = self.transform(block, learn)
            return unscaled, unscaled
        features, numbers = self._split(block)
        filled = self._filled(numbers, learn, copy(self._running))  # the original is updated by `_scaled`
        scaled = self._scaled(numbers, learn)
        return self._joined(features.copy(), scaled), self._joined(features, filled)

    def copy(self) -> Encoder:
        """Return an encoder in the same state; transforming rows by one does not change the other."""
        other = copy(self)
        other._running = copy(self._running)
        return other

    def state(self) -> State:
        """Return everything as numbers, text, lists, dicts and arrays."""
        options = ("encode", "hash_columns", "scale", "missing", "constant")
        return {
            "options": {name: getattr(self, name) for name in options} | {"na_values": list(self.na_values)},
            "columns": [column.state() for column in self._columns],
            "running": self._running.state(),
        }

    @classmethod
    def from_state(cls, state: State) -> Encoder:
        """Return an encoder with this `state`."""
        options = dict(state["options"])
        na_values = options.pop("na_values", OLD_MISSING_TEXTS)  # earlier versions knew only these
        self = cls(**options)
        self.na_values = tuple(map(str, na_values))
        width = self.hash_columns or HASHED
        self._columns = [Column.from_state(column, width) for column in state["columns"]]
        self._running = Running.from_state(state["running"])
        if len(self._running.origin) != len(self._numeric_names):
            raise ValueError("the means are not those of the columns")
        return self

    def _split(self, block: Columns) -> tuple[Floats, Floats]:
        """Return the features with all but the numbers filled in, and the numbers; check both."""
        n = len(next(values if isinstance(values, np.ndarray) else values[0] for values in block.values()))
        features, start, rows = np.zeros((n, self.n_features)), 0, np.arange(n)
        numbers: list[Floats] = []
        faults: list[Fault] = []
        for column in self._columns:
            width = column.n_features
            if width == 0:
                continue
            values = block[column.name]
            if isinstance(values, np.ndarray):
                own = features[:, start : start + width]
                if column.has_number:
                    numbers.append(values - column.origin if column.kind == "time" else values)
                elif self.missing == "error" and (gap := np.isnan(values)).any():
                    faults.append(_no_value(int(gap.argmax()), column.name))
                _fill_fixed(own, column, values)
            else:
                if self.missing == "error" and (gap := values[0] < 0).any():
                    faults.append(_no_value(int(gap.argmax()), column.name))
                if column.kind == "words":
                    by_text = hashed_words([*values[1], ""], column.name, width)
                    features[:, start : start + width] = by_text[values[0]].toarray()
                else:
                    features[rows, start + column.positions(values)] = 1.0
            start += width
        if self.constant:
            features[:, -1] = 1.0
        table = np.stack(numbers, axis=1) if numbers else np.empty((n, 0))
        faults += self._check(table)
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        return features, table

    def _sparse_rows(self, block: Columns) -> csr_matrix:
        """Return the features of text."""
        parts, faults = [], []
        for column in self._columns:
            if column.kind == "words":
                codes, texts = block[column.name]
                if self.missing == "error" and (gap := codes < 0).any():
                    faults.append(_no_value(int(gap.argmax()), column.name))
                parts.append(hashed_words([*texts, ""], column.name, column.width)[codes])
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        if self.constant:
            parts.append(csr_matrix(np.ones((parts[0].shape[0], 1))))
        return hstack(parts, format="csr") if len(parts) > 1 else parts[0]

    def _joined(self, features: Floats, numbers: Floats) -> Floats:
        """Return the features with the numbers filled in."""
        if numbers.shape == features.shape:
            return np.ascontiguousarray(numbers)
        sizes = [column.n_features for column in self._columns]
        starts = np.cumsum([0, *sizes])[:-1]
        places = starts[[column.has_number for column in self._columns]]
        if len(places) and places[-1] - places[0] == len(places) - 1:  # a slice is faster than indices
            features[:, places[0] : places[-1] + 1] = numbers
        else:
            features[:, places] = numbers
        return features

    def _check(self, table: Floats) -> list[Fault]:
        """Return the first number that is missing or too large, if there is one."""
        limit = MAX_SCALED_NUMBER if self.scale else MAX_NUMBER
        if table.size == 0 or (table.min() >= -limit and table.max() <= limit):  # false if there is a NaN
            return []
        bad = np.abs(table) > limit
        if self.missing == "error":
            bad |= np.isnan(table)
        if not bad.any():
            return []
        row, place = divmod(int(bad.argmax()), table.shape[1])
        name, value = self._numeric_names[place], table[row, place]
        if np.isnan(value):
            return [_no_value(row, name)]
        return [Fault(row, f'column "{name}" has {value}; numbers must be finite', column=name)]

    def _scaled(self, numbers: Floats, learn: bool) -> Floats:
        return self._running.standardise(numbers) if learn else self._running.frozen(numbers)

    def _filled(self, numbers: Floats, learn: bool, running: Running) -> Floats:
        """Return unscaled numbers, with the running mean in place of missing values."""
        if not learn:
            return np.where(np.isnan(numbers), running.mean, numbers)
        with np.errstate(over="ignore", invalid="ignore"):  # squares may overflow, but only the mean is used
            return running.fill(numbers)


def _fill_fixed(own: Floats, column: Column, values: Floats) -> None:
    """Fill in the features of a number or date that are not standardised."""
    place = int(column.has_number)
    for part in column.parts:
        if part != "days":
            own[:, place : place + 2] = _times.features(values, part).T
            place += 2
    if column.missing:
        own[:, place] = np.isnan(values)


def _no_value(row: int, name: str) -> Fault:
    return Fault(row, f'column "{name}" has no value', Advice.FILL_MISSING, column=name)
