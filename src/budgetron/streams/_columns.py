"""How the columns of a table are read, and the features of each."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from budgetron.streams import _numbers, _times
from budgetron.streams._running import Floats, State

__all__ = ["MISSING_TEXTS", "OLD_MISSING_TEXTS", "Category", "Column", "Columns"]

# A categorical column: the index of each row's level (-1 if missing), and the levels.
Category: TypeAlias = tuple[NDArray[np.int64], list[str]]

# A block of a table: for each column numbers (NaN if missing) or categories. Dates are numbers of days.
Columns: TypeAlias = dict[str, Floats | Category]

# Texts that mean a missing value: those of earlier versions, and those that were added.
OLD_MISSING_TEXTS = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
MISSING_TEXTS = (*OLD_MISSING_TEXTS, "?", "-", "<NA>", "na", "None", "Null")

# The largest number of features of a hashed column
MAX_WIDTH = 1 << 24

_WORDS = {
    "number": "number",
    "time": "date or time",
    "onehot": "category, one feature per level",
    "hash": "category, hashed",
    "words": "text, hashed words",
    "none": "not used",
}


@dataclass(frozen=True)
class Column:
    """How one column becomes features.

    Attributes
    ----------
    name : str
    kind : {"number", "time", "onehot", "hash", "words", "none"}
    form : str
        How numbers or dates are written, or the unit of Unix times; see `_numbers` and `_times`.
    unit : str
        The sign of percent or of a currency that the numbers have.
    levels : tuple of str
        The levels that have a feature of their own; those of a hashed column are the most frequent ones.
    missing : bool
        Whether values were missing in the first rows, so that there is a feature for missing values.
    parts : tuple of str
        The features of a date: "days", "hour", "weekday".
    origin : float
        The day from which elapsed time counts.
    reason : str
        Why the column is read in this way, if that may surprise.
    width : int
        The number of features into which levels or words are hashed.
    """

    name: str
    kind: str
    form: str = ""
    unit: str = ""
    levels: tuple[str, ...] = ()
    missing: bool = False
    parts: tuple[str, ...] = ()
    origin: float = 0.0
    reason: str = ""
    width: int = 0

    @property
    def has_number(self) -> bool:
        """Whether the first feature is a number that may be standardised: a value, or elapsed time."""
        return self.kind == "number" or "days" in self.parts

    @property
    def n_features(self) -> int:
        """The number of this column's features."""
        if self.kind == "number":
            return 1 + self.missing
        return self.width if self.kind == "words" else len(self.features())

    def features(self) -> list[str]:
        """Return the names of this column's features."""
        if self.kind == "none":
            return []
        if self.kind in ("hash", "words"):
            known = [f"{self.name}={level}" for level in self.levels]
            return known + [f"{self.name}#{i}" for i in range(self.width)]
        if self.kind in ("number", "time"):
            names = [self.name] if self.kind == "number" else []
            for part in self.parts:
                one = [f"{self.name}.days"] if part == "days" else []
                names += one or [f"{self.name}.{part}_sin", f"{self.name}.{part}_cos"]
            return [*names, f"{self.name}=missing"] if self.missing else names
        names = [f"{self.name}={level}" for level in self.levels]
        for extra in ["missing", "?"] if self.missing else ["?"]:
            name = f"{self.name}={extra}"
            while name in names:  # some tables use "?" as a level
                name += "?"
            names.append(name)
        return names

    def positions(self, category: Category) -> NDArray[np.int64]:
        """Return for each row which feature of this categorical column is 1."""
        codes, levels = category
        known = {level: i for i, level in enumerate(self.levels)}
        if self.kind == "hash":
            salt, start = crc32(self.name.encode()), len(known)
            by_level = [
                known[level] if level in known else start + crc32(level.encode(), salt) % self.width
                for level in levels
            ]
            missing = start + crc32(b"\0missing", salt) % self.width
        else:
            missing = len(known)
            other = missing + self.missing
            by_level = [known.get(level, other) for level in levels]
        return np.array([*by_level, missing])[codes]  # code -1 selects the last entry

    def description(self) -> str:
        """Return in words how the column is read."""
        words = _WORDS[self.kind]
        if self.kind == "onehot":
            return f"category of {len(self.levels)} level{'' if len(self.levels) == 1 else 's'}"
        if self.kind == "time" and self.form:
            return f"{words} ({self.form})"
        if self.kind == "number":
            # Few files have all separators that the form allows. An example leaves no doubt about the mark.
            marks = [f"as 1{self.form[1:]}234{self.form[:1]}5"] if self.form else []
            marks += [f"in {self.unit}"] if self.unit else []
            return f"number ({', '.join(marks)})" if marks else words
        return words

    def state(self) -> State:
        """Return everything as text, numbers and lists."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.unit:  # so that earlier versions can read it
            del values["unit"]
        return values | {"levels": list(self.levels), "parts": list(self.parts)}

    @classmethod
    def from_state(cls, state: State, width: int) -> Column:
        """Return a column with this `state`; fields that earlier versions did not have get their defaults."""
        defaults: State = {"form": "", "levels": [], "missing": False, "parts": [], "origin": 0.0}
        defaults |= {"reason": "", "width": width, "unit": ""}
        given = defaults | state
        if set(given) != {field.name for field in fields(cls)}:
            raise ValueError(f"a column has unknown fields: {sorted(given)}")
        if given["kind"] not in _WORDS or not set(given["parts"]) <= {"days", "hour", "weekday"}:
            raise ValueError(f"a column of an unknown kind: {given['kind']} {given['parts']}")
        forms = {"number": _numbers.FORMS, "time": _times.FORMS}.get(given["kind"], ())
        if given["form"] not in ("", *forms):
            raise ValueError(f"a column of an unknown form: {given['form']!r}")
        if given["unit"] not in ("", *_numbers.UNITS):
            raise ValueError(f"a column of an unknown unit: {given['unit']!r}")
        if given["kind"] in ("hash", "words") and not 1 <= given["width"] <= MAX_WIDTH:
            raise ValueError(f"a column of {given['width']} features")
        return cls(
            **{name: str(given[name]) for name in ("name", "kind", "form", "unit", "reason")},
            levels=tuple(map(str, given["levels"])),
            missing=bool(given["missing"]),
            parts=tuple(given["parts"]),
            origin=float(given["origin"]),
            width=int(given["width"]),
        )
