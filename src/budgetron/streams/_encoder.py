"""Columns of a table become features, using only the rows seen so far."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from budgetron.streams._errors import Advice, Fault
from budgetron.streams._running import Floats, Running, State

__all__ = ["Category", "Columns", "Encoder"]

# A categorical column: the index of each row's level (-1 if missing), and the levels.
Category: TypeAlias = tuple[NDArray[np.int64], list[str]]

# A block of a table: for each column numbers (NaN if missing) or categories.
Columns: TypeAlias = dict[str, Floats | Category]

MAX_LEVELS = 64
MAX_NUMBER = float(np.finfo(np.float64).max)
MAX_SCALED_NUMBER = 1e150  # its square must be finite


@dataclass(frozen=True)
class _Column:
    """How one column becomes features: a number, one feature per level, or hashed."""

    name: str
    kind: str  # "number", "onehot" or "hash"
    levels: tuple[str, ...] = ()
    missing: bool = False  # whether "missing" is a level of its own

    def features(self, hash_columns: int) -> list[str]:
        """Return the names of this column's features."""
        if self.kind == "number":
            return [self.name]
        if self.kind == "hash":
            return [f"{self.name}#{i}" for i in range(hash_columns)]
        names = [f"{self.name}={level}" for level in self.levels]
        for extra in ["missing", "?"] if self.missing else ["?"]:
            name = f"{self.name}={extra}"
            while name in names:  # some tables use "?" as a level
                name += "?"
            names.append(name)
        return names

    def positions(self, category: Category, hash_columns: int) -> NDArray[np.int64]:
        """Return for each row which of this column's features is 1."""
        codes, levels = category
        if self.kind == "hash":
            salt = crc32(self.name.encode())
            by_level = [crc32(level.encode(), salt) % hash_columns for level in levels]
            missing = crc32(b"\0missing", salt) % hash_columns
        else:
            known = {level: i for i, level in enumerate(self.levels)}
            missing = len(known)
            other = missing + self.missing
            by_level = [known.get(level, other) for level in levels]
        return np.array([*by_level, missing])[codes]  # code -1 selects the last entry


class Encoder:
    """Turn numbers and categories into features, row by row.

    The features of a row depend only on that row, on earlier rows, and on the first block.

    - A numeric column stays one column. With `scale` it is standardised by the mean and standard deviation of
      the rows up to and including the current one. While all values are equal, the feature is 0.
    - A categorical column with at most 64 levels in the first rows becomes one column per level
      (``name=level``, in sorted order), 0 or 1, and one more for any other level (``name=?``). With more
      levels it is hashed into `hash_columns` columns (``name#0``...) by the CRC-32 of its name and level.
    - The first rows are the first 4096, or those in the first megabyte of text if these are fewer.
    - Columns keep the order of the file. `constant` appends a column of ones.
    - Missing values are an error, unless ``missing="mean"``. Then a missing number becomes the mean of the
      earlier rows (0 if there are none) and does not change the mean and the deviation. A missing category
      becomes the level ``name=missing`` if the first rows had missing values too, and ``name=?`` otherwise.

    Parameters
    ----------
    encode : {"auto", "onehot", "hash"}, default="auto"
        How categorical columns are encoded; "auto" is the rule above.
    hash_columns : int, default=64
    scale : bool, default=True
        Whether numbers are standardised.
    missing : {"error", "mean"}, default="error"
    constant : bool, default=False

    Notes
    -----
    The cost of a row is O(features). An encoder restored from its `state` encodes rows as the original does.
    """

    def __init__(
        self,
        *,
        encode: str = "auto",
        hash_columns: int = 64,
        scale: bool = True,
        missing: str = "error",
        constant: bool = False,
    ) -> None:
        if encode not in ("auto", "onehot", "hash"):
            raise ValueError(f'encode must be "auto", "onehot" or "hash"; got {encode!r}')
        if missing not in ("error", "mean"):
            raise ValueError(f'missing must be "error" or "mean"; got {missing!r}')
        if int(hash_columns) != hash_columns or hash_columns < 1:
            raise ValueError(f"hash_columns must be an integer of at least 1; got {hash_columns}")
        self.encode, self.hash_columns = encode, int(hash_columns)
        self.scale, self.missing, self.constant = bool(scale), missing, bool(constant)
        self._columns: list[_Column] = []
        self._running = Running(0)

    def __repr__(self) -> str:
        return f"<Encoder: {self.summary()}>"

    def summary(self) -> str:
        """Return one line that says how each column is encoded."""
        words = {"number": "numeric", "onehot": "one-hot", "hash": "hashed"}
        kinds = {kind: [c.name for c in self._columns if c.kind == kind] for kind in words}
        parts = [
            f"{len(names)} {words[kind]} ({', '.join(names if len(names) <= 6 else [*names[:5], '...'])})"
            for kind, names in kinds.items()
            if names
        ]
        return ", ".join([*parts, *(["constant"] if self.constant else [])])

    @property
    def columns(self) -> dict[str, bool]:
        """The columns that are read, in order, and whether each is numeric."""
        return {column.name: column.kind == "number" for column in self._columns}

    @property
    def feature_names(self) -> list[str]:
        """The names of the features, in order."""
        names = [name for column in self._columns for name in column.features(self.hash_columns)]
        return [*names, "constant"] if self.constant else names

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """The current mean and deviation of each numeric column: its feature is (x - mean) / deviation.

        Rows to predict are encoded by these. A column that never changed has an infinite deviation, so that
        its feature is 0. Without `scale` they are 0 and 1.
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
        return [name for name, number in self.columns.items() if number]

    def start(self, first: Columns) -> Encoder:
        """Determine the features from the first rows of a table; return self."""
        self._columns = [self._column(name, values) for name, values in first.items()]
        return self.reset()

    def reset(self) -> Encoder:
        """Forget the mean and deviation, but keep the features; return self."""
        self._running = Running(len(self._numeric_names))
        return self

    def transform(self, block: Columns, learn: bool = True) -> Floats:
        """Return the features of a block of rows.

        Parameters
        ----------
        block : dict of str to ndarray or (codes, levels)
            For each column the numbers, NaN if missing, or the index of each row's level, -1 if missing.
        learn : bool, default=True
            Whether the rows update the running mean and deviation.
        """
        features, numbers = self._split(block)
        scaled = self._scaled(numbers, learn) if self.scale else self._filled(numbers, learn, self._running)
        return self._joined(features, scaled)

    def transform_both(self, block: Columns, learn: bool = True) -> tuple[Floats, Floats]:
        """Return the features of a block of rows, as `transform` does, and the same without scaling."""
        if not self.scale:
            unscaled = self.transform(block, learn)
            return unscaled, unscaled
        features, numbers = self._split(block)
        filled = self._filled(numbers, learn, copy(self._running))  # the original is updated by `_scaled`
        scaled = self._scaled(numbers, learn)
        return self._joined(features.copy(), scaled), self._joined(features, filled)

    def state(self) -> State:
        """Return everything as numbers, text, lists, dicts and arrays."""
        options = ("encode", "hash_columns", "scale", "missing", "constant")
        columns = [
            {"name": c.name, "kind": c.kind, "levels": list(c.levels), "missing": c.missing}
            for c in self._columns
        ]
        return {
            "options": {name: getattr(self, name) for name in options},
            "columns": columns,
            "running": self._running.state(),
        }

    @classmethod
    def from_state(cls, state: State) -> Encoder:
        """Return an encoder with this `state`."""
        self = cls(**state["options"])
        self._columns = [
            _Column(c["name"], c["kind"], tuple(c["levels"]), bool(c["missing"])) for c in state["columns"]
        ]
        self._running = Running.from_state(state["running"])
        return self

    def _column(self, name: str, values: Floats | Category) -> _Column:
        if isinstance(values, np.ndarray):
            return _Column(name, "number")
        codes, levels = values
        present = np.unique(codes)
        if self.encode == "hash" or (self.encode == "auto" and (present >= 0).sum() > MAX_LEVELS):
            return _Column(name, "hash")
        found = sorted({levels[code] for code in present if code >= 0})
        return _Column(name, "onehot", tuple(found), bool((codes < 0).any()))

    def _split(self, block: Columns) -> tuple[Floats, Floats]:
        """Return the features with all but the numbers filled in, and the numbers; check both."""
        n = len(next(values if isinstance(values, np.ndarray) else values[0] for values in block.values()))
        features, start, rows = np.zeros((n, len(self.feature_names))), 0, np.arange(n)
        numbers: list[Floats] = []
        faults: list[Fault] = []
        for column in self._columns:
            values = block[column.name]
            if isinstance(values, np.ndarray):
                numbers.append(values)
            else:
                if self.missing == "error" and (gap := values[0] < 0).any():
                    faults.append(_no_value(int(gap.argmax()), column.name))
                features[rows, start + column.positions(values, self.hash_columns)] = 1.0
            start += len(column.features(self.hash_columns))
        if self.constant:
            features[:, -1] = 1.0
        table = np.stack(numbers, axis=1) if numbers else np.empty((n, 0))
        faults += self._check(table)
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        return features, table

    def _joined(self, features: Floats, numbers: Floats) -> Floats:
        """Return the features with the numbers filled in."""
        if numbers.shape == features.shape:
            return np.ascontiguousarray(numbers)
        sizes = [len(column.features(self.hash_columns)) for column in self._columns]
        starts = np.cumsum([0, *sizes])[:-1]
        features[:, starts[[column.kind == "number" for column in self._columns]]] = numbers
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
        return [Fault(row, f'column "{name}" has {value}; numbers must be finite')]

    def _scaled(self, numbers: Floats, learn: bool) -> Floats:
        return self._running.standardise(numbers) if learn else self._running.frozen(numbers)

    def _filled(self, numbers: Floats, learn: bool, running: Running) -> Floats:
        """Return unscaled numbers, with the running mean in place of missing values."""
        if not learn:
            return np.where(np.isnan(numbers), running.mean, numbers)
        with np.errstate(over="ignore", invalid="ignore"):  # squares may overflow, but only the mean is used
            return running.fill(numbers)


def _no_value(row: int, name: str) -> Fault:
    return Fault(row, f'column "{name}" has no value', Advice.FILL_MISSING)
