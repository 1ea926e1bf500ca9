"""Columns of a table become features, by what was seen so far and never by what comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

__all__ = ["Encoder", "Fault", "Running"]

Floats: TypeAlias = NDArray[np.float64]

#: A categorical column: for each row the number of its level (-1 where missing), and the levels.
Category: TypeAlias = tuple[NDArray[np.int64], list[str]]

MOST_LEVELS = 64
_SEGMENT = 4096


class Fault(Exception):  # noqa: N818 - told to no one as it is
    """A value that cannot be used: `row` counts from 0 in the block at hand."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(text)
        self.row = row


class Running:
    """Mean and standard deviation of each column over the rows up to each one; NaN is skipped.

    Sums are taken about the mean of an earlier row, relative to the column's first value, so that a
    mean far from 0 costs no digits. That reference moves every 4096 rows whatever the blocks
    are, so that the results are the same bit for bit in every cut of the stream.
    """

    # What is kept: the first value of each column; the reference, counted from it; how many values
    # and which sum of squares about their own mean there were when it was set; the values since, the sum
    # of their distances from the reference, and the sum of the squares of these.
    _fields = ("origin", "reference", "count", "squares", "since", "sum1", "sum2")

    def __init__(self, n_columns: int) -> None:
        self.rows = 0
        self.origin = np.full(n_columns, np.nan)
        self.reference, self.count, self.squares = np.zeros((3, n_columns))
        self.since, self.sum1, self.sum2 = np.zeros((3, n_columns))

    @property
    def mean(self) -> Floats:
        """Mean of each column; 0 where there was no value yet."""
        n = np.maximum(self.count + self.since, 1.0)
        mean: Floats = np.nan_to_num(self.origin) + (self.reference + self.sum1 / n)
        return mean

    @property
    def std(self) -> Floats:
        """Standard deviation of each column (of the values seen, not of a population)."""
        n = np.maximum(self.count + self.since, 1.0)
        return np.sqrt(np.maximum(self.squares + (self.sum2 - self.sum1**2 / n), 0.0) / n)

    def standardise(self, X: Floats) -> Floats:
        """(x - mean) / std with each row counted before it is standardised; 0 where that is undefined."""
        out = np.empty_like(X)
        for start, rows in self._segments(X):
            distance, sums, variances, n = self._advance(rows)
            distance -= sums / n
            variances = np.sqrt(np.maximum(variances, 0.0) / n, out=variances)
            flat = variances == 0
            variances[flat] = 1.0
            distance /= variances
            distance[flat | np.isnan(rows)] = 0.0
            out[start : start + len(rows)] = distance
        return out

    def fill(self, X: Floats) -> Floats:
        """X with each gap replaced by the mean of the earlier rows."""
        out = X.copy()
        for start, rows in self._segments(X):
            base, before = self.reference, np.nan_to_num(self.origin)
            _, sums, _, n = self._advance(rows)
            # A gap leaves the sums as they were, so those at its row are those before it. A column
            # without any value before has sum 0 there, and its origin must not be told early.
            started = np.cumsum(~np.isnan(rows), axis=0) > 0
            origin = np.where(started, np.nan_to_num(self.origin), before)
            means = origin + (base + sums / n)
            gaps = np.isnan(rows)
            out[start : start + len(rows)][gaps] = means[gaps]
        return out

    def frozen(self, X: Floats) -> Floats:
        """X standardised by the mean and deviation as they are; gaps become 0."""
        distance: Floats = X - np.nan_to_num(self.origin)
        distance -= self.reference + self.sum1 / np.maximum(self.count + self.since, 1.0)
        std = self.std
        distance /= np.where(std == 0, 1.0, std)
        distance[:, std == 0] = 0.0
        distance[np.isnan(distance)] = 0.0
        return distance

    def state(self) -> dict[str, Any]:
        return {"rows": self.rows} | {name: getattr(self, name).copy() for name in self._fields}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Running:
        self = cls(0)
        self.rows = int(state["rows"])
        for name in cls._fields:
            setattr(self, name, np.array(state[name], np.float64))
        return self

    def _segments(self, X: Floats) -> Any:
        start = 0
        while start < len(X):
            stop = start + _SEGMENT - self.rows % _SEGMENT
            rows = X[start:stop]
            yield start, rows
            start = stop
            self.rows += len(rows)
            if self.rows % _SEGMENT == 0:
                self._rebase()

    def _advance(self, rows: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Take in rows; per row: distance from the reference, their sum, squares about the mean, count."""
        gaps = np.isnan(rows)
        some = gaps.any()
        fresh = np.isnan(self.origin)
        if fresh.any():
            first = gaps.argmin(axis=0)
            self.origin = np.where(fresh, rows[first, np.arange(rows.shape[1])], self.origin)
        distance = rows - self.origin
        distance -= self.reference
        if some:
            distance[gaps] = 0.0
            since = np.cumsum(~gaps, axis=0) + self.since
        else:
            since = np.arange(1.0, len(rows) + 1)[:, None] + self.since
        # The carry goes into the first row, so that the additions are those of one long sum.
        sum1, sum2 = distance.copy(), distance**2
        sum1[0] += self.sum1
        sum2[0] += self.sum2
        np.cumsum(sum1, axis=0, out=sum1)
        np.cumsum(sum2, axis=0, out=sum2)
        self.since, self.sum1, self.sum2 = since[-1], sum1[-1].copy(), sum2[-1].copy()
        n = np.maximum(since + self.count, 1.0)
        sum2 -= sum1**2 / n
        sum2 += self.squares
        return distance, sum1, sum2, n

    def _rebase(self) -> None:
        n = np.maximum(self.count + self.since, 1.0)
        self.squares = np.maximum(self.squares + (self.sum2 - self.sum1**2 / n), 0.0)
        self.reference = self.reference + self.sum1 / n
        self.count = self.count + self.since
        self.since, self.sum1, self.sum2 = np.zeros((3, len(n)))


@dataclass(frozen=True)
class _Column:
    """How one column becomes features: a number, one feature a level, or hashed."""

    name: str
    kind: str  # "number", "onehot" or "hash"
    levels: tuple[str, ...] = ()
    missing: bool = False  # whether "missing" is a level of its own

    def features(self, hash_columns: int) -> list[str]:
        if self.kind == "number":
            return [self.name]
        if self.kind == "hash":
            return [f"{self.name}#{i}" for i in range(hash_columns)]
        names = [f"{self.name}={level}" for level in self.levels]
        for extra in ["missing", "?"] if self.missing else ["?"]:
            name = f"{self.name}={extra}"
            while name in names:  # some tables write "?" themselves
                name += "?"
            names.append(name)
        return names

    def places(self, category: Category, hash_columns: int) -> NDArray[np.int64]:
        """Which of this column's features is 1, row by row."""
        codes, levels = category
        if self.kind == "hash":
            salt = crc32(self.name.encode())
            at = [crc32(level.encode(), salt) % hash_columns for level in levels]
            gap = crc32(b"\0missing", salt) % hash_columns
        else:
            known = {level: i for i, level in enumerate(self.levels)}
            gap = len(known)
            other = gap + self.missing
            at = [known.get(level, other) for level in levels]
        return np.array([*at, gap])[codes]  # code -1 is the last: the gap


class Encoder:
    """Numbers and categories become features, row by row, without looking ahead.

    - A numeric column stays one column. With `scale` it is standardised by the mean and standard
      deviation of the rows up to and including the present one; while these are all equal it is 0.
    - A categorical column whose first rows show at most 64 levels becomes one column a level
      (``name=level``, in sorted order), 0 or 1, and one more for any level not seen then (``name=?``).
      With more levels it is hashed into `hash_columns` columns (``name#0``...) by the CRC-32 of its name
      and level.
    - The first rows are the first 4096, or those in the first megabyte of text if these are fewer.
    - Columns keep the order of the file; `constant` appends a column of ones.
    - Missing values are an error, or with ``missing="mean"``: a number becomes the mean of the earlier rows
      (0 before any), which leaves mean and deviation as they are; a category becomes the level
      ``name=missing`` if the first rows had gaps too, otherwise ``name=?``.

    Parameters
    ----------
    encode : {"auto", "onehot", "hash"}, default="auto"
        How categorical columns are encoded; "auto" is the rule above.
    hash_columns : int, default=64
    scale : bool, default=True
    missing : {"error", "mean"}, default="error"
    constant : bool, default=False

    Notes
    -----
    A row costs O(features). `state` holds all there is, so that rows can be encoded elsewhere and later
    as they were when it was taken.
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
            raise ValueError(f"hash_columns must be a whole number of at least 1; got {hash_columns}")
        self.encode, self.hash_columns = encode, int(hash_columns)
        self.scale, self.missing, self.constant = bool(scale), missing, bool(constant)
        self._columns: list[_Column] = []
        self._running = Running(0)

    def __repr__(self) -> str:
        return f"<Encoder: {self.summary()}>"

    def summary(self) -> str:
        """How the columns are read, in one line."""
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
        """The columns that are read, in order, and whether each is a number."""
        return {column.name: column.kind == "number" for column in self._columns}

    @property
    def feature_names(self) -> list[str]:
        names = [name for column in self._columns for name in column.features(self.hash_columns)]
        return [*names, "constant"] if self.constant else names

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """The mean and the deviation of each numeric column: its feature is (x - mean) / deviation.

        As they are now; so are rows to predict encoded. A column that never changed has an infinite
        deviation: its feature is 0. Without `scale` they are 0 and 1.
        """
        names = [name for name, number in self.columns.items() if number]
        if not self.scale:
            return dict.fromkeys(names, (0.0, 1.0))
        deviations = np.where(self._running.std == 0.0, np.inf, self._running.std)
        return dict(
            zip(names, zip(self._running.mean.tolist(), deviations.tolist(), strict=True), strict=True)
        )

    def start(self, first: dict[str, Floats | Category]) -> Encoder:
        """Fix the features by the first rows of a table; returns self."""
        self._columns = [self._column(name, values) for name, values in first.items()]
        return self.anew()

    def anew(self) -> Encoder:
        """Forget mean and deviation, but not which features there are; returns self."""
        self._running = Running(sum(self.columns.values()))
        return self

    def transform(self, block: dict[str, Floats | Category], learn: bool = True) -> Floats:
        """Features of a block of rows; `learn` takes these into the running mean and deviation.

        Parameters
        ----------
        block : dict of str to ndarray or (codes, levels)
            For each column numbers, with NaN for gaps, or each row's level, with -1 for gaps.
        learn : bool, default=True
        """
        n = len(next(values if isinstance(values, np.ndarray) else values[0] for values in block.values()))
        sizes = [len(column.features(self.hash_columns)) for column in self._columns]
        starts = np.cumsum([0, *sizes])
        X = np.zeros((n, int(starts[-1]) + self.constant))
        numbers, at = [], []
        rows = np.arange(n)
        faults: list[Fault] = []
        for column, start in zip(self._columns, starts[:-1], strict=True):
            values = block[column.name]
            if isinstance(values, np.ndarray):
                numbers.append(values)
                at.append(start)
            else:
                if self.missing == "error" and (gap := values[0] < 0).any():
                    faults.append(Fault(int(gap.argmax()), _no_value(column.name)))
                X[rows, start + column.places(values, self.hash_columns)] = 1.0
        if numbers:
            table = np.stack(numbers, axis=1)
            faults += self._check(table, [name for name, number in self.columns.items() if number])
        if faults:
            raise min(faults, key=lambda fault: fault.row)
        if numbers:
            encoded = self._numbers(table, learn)
            if encoded.shape == X.shape:
                return np.ascontiguousarray(encoded)
            X[:, at] = encoded
        if self.constant:
            X[:, -1] = 1.0
        return X

    def state(self) -> dict[str, Any]:
        """Everything as numbers, text, lists, dicts and arrays."""
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
    def from_state(cls, state: dict[str, Any]) -> Encoder:
        """The encoder whose `state` this was."""
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
        if self.encode == "hash" or (self.encode == "auto" and (present >= 0).sum() > MOST_LEVELS):
            return _Column(name, "hash")
        seen = sorted({levels[code] for code in present if code >= 0})
        return _Column(name, "onehot", tuple(seen), bool((codes < 0).any()))

    def _check(self, table: Floats, names: list[str]) -> list[Fault]:
        most = 1e150 if self.scale else np.finfo(np.float64).max  # squares must be finite too
        if table.min() >= -most and table.max() <= most:  # false if there is a NaN
            return []
        bad = np.abs(table) > most
        if self.missing == "error":
            bad |= np.isnan(table)
        if not bad.any():
            return []
        row, column = divmod(int(bad.argmax()), table.shape[1])
        if np.isnan(table[row, column]):
            return [Fault(row, _no_value(names[column]))]
        return [Fault(row, f'column "{names[column]}" has {table[row, column]}; numbers must be finite')]

    def _numbers(self, table: Floats, learn: bool) -> Floats:
        if self.scale:
            return self._running.standardise(table) if learn else self._running.frozen(table)
        if learn:
            return self._running.fill(table) if self.missing == "mean" else table
        return np.where(np.isnan(table), self._running.mean, table)


def _no_value(name: str) -> str:
    return f'column "{name}" has no value; set missing to "mean", or fill the gap'
