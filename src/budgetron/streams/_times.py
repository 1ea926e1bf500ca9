"""Dates and times: recognise how they are written, and turn them into features.

A date is a number of days since 1970-01-01, with the time of day as a fraction. The zone is not used: hour
and weekday are those that are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from budgetron.streams._errors import Advice, Fault
from budgetron.streams._running import Floats

__all__ = [
    "FORMS",
    "epoch_unit",
    "features",
    "find_form",
    "from_numbers",
    "is_unit",
    "parse",
    "parts_of",
    "typed_days",
]

# An array of pyarrow, which has no types.
ArrowArray: TypeAlias = Any

_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?P<s>:(?P<second>\d\d)(?P<f>[.,](?P<fraction>\d{1,9}))?)?"
    r"(?P<p> ?(?P<half>[AaPp])\.?[Mm]\.?)?"
)
_ZONE = r"(?P<zone> ?(?P<o>Z|UTC|GMT|[+-]\d\d:?(?P<q>\d\d)?))?"
_MONTH = "(?P<name>[A-Za-z]{3})[a-z]*"
_YEAR, _NUMBER, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"

# The date of each form, and whether a time may follow.
_DATES = {
    "year-month-day": rf"{_YEAR}[-/.]{_NUMBER}[-/.]{_DAY}",
    "yearmonthday": r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)",
    "day.month.year": rf"{_DAY}\.{_NUMBER}\.{_YEAR}",
    "day/month/year": rf"{_DAY}[/-]{_NUMBER}[/-]{_YEAR}",
    "month/day/year": rf"{_NUMBER}[/-]{_DAY}[/-]{_YEAR}",
    "day month year": rf"{_DAY}[ -]{_MONTH}\.?[ -]{_YEAR}",
    "month day year": rf"{_MONTH}\.? {_DAY},? {_YEAR}",
}
_PATTERNS = {form: rf"^\s*{date}(?P<t>(?:T|,? +){_TIME}{_ZONE})?\s*$" for form, date in _DATES.items()}
_PATTERNS["time"] = rf"^\s*{_TIME}\s*$"
_COMPILED = {form: re.compile(pattern) for form, pattern in _PATTERNS.items()}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

# Units of Unix time: the number of units in a day. The plausible range is 1980 to 2100.
_UNITS = {"s": 86400.0, "ms": 86400e3, "us": 86400e6, "ns": 86400e9}
# Dates that cover more days than this, such as dates of birth, have no hour and no weekday.
LONG = 3653

FORMS = (*_PATTERNS, *_UNITS)
_FIRST_DAY, _LAST_DAY = 3652.0, 47482.0


def find_form(values: Sequence[str], order: str = "auto") -> str | None:
    """Return the form in which all values are dates or times; None if there is none.

    Raises `Fault` if the values may have the day or the month first; `order` ("day", "month") decides then.
    """
    found = []
    for form, pattern in _COMPILED.items():
        matches = []
        for value in values:
            match = pattern.match(value)
            if match is None or not _is_valid(match.groupdict()):
                break
            matches.append(match)
        else:
            found.append(form)
    if {"day/month/year", "month/day/year"} <= set(found):
        if order == "auto":
            raise Fault(0, f"has {values[0]!r}, which may begin with the day or the month", Advice.DATE_ORDER)
        return f"{order}/{'month' if order == 'day' else 'day'}/year"
    return found[0] if found else None


def _is_valid(fields: dict[str, str | None]) -> bool:
    if fields["hour"] is not None and not (int(fields["hour"]) < 24 and int(fields["minute"] or 0) < 60):
        return False
    if "year" not in fields:
        return True
    if (name := fields.get("name")) is not None:
        if name.lower() not in _MONTHS:
            return False
        month = _MONTHS.index(name.lower()) + 1
    else:
        month = int(fields["month"] or 0)
    day = int(fields["day"] or 0)
    return 1 <= month <= 12 and 1 <= day <= _days_in(int(fields["year"] or 0), month)


def _days_in(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 + leap if month == 2 else 30 + (month in (1, 3, 5, 7, 8, 10, 12))


def parse(values: ArrowArray, form: str, name: str, na_values: Iterable[str]) -> Floats:
    """Return the days of dates that are written in this form, NaN where a value is missing."""
    import pyarrow as pa
    from pyarrow import compute

    text = values.cast(pa.string())
    missing = compute.is_in(compute.utf8_trim_whitespace(text), pa.array([*na_values, None], pa.string()))
    fields = compute.extract_regex(text, _PATTERNS[form])
    days, valid = _days_of(fields, form)
    gone = missing.to_numpy(zero_copy_only=False)
    if (bad := ~gone & ~(valid & fields.is_valid().to_numpy(zero_copy_only=False))).any():
        row = int(bad.argmax())
        problem = f'column "{name}" has {values[row].as_py()!r}, but dates in the form {form} before'
        raise Fault(row, problem, Advice.CATEGORICAL)
    days[gone] = np.nan
    return days


def _days_of(fields: ArrowArray, form: str) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Return the days of matched fields, and which of them are possible."""
    from pyarrow import compute

    def numbers(field: str) -> Floats:
        text = compute.struct_field(fields, field)
        return np.asarray(
            compute.if_else(compute.equal(text, ""), "0", text).cast("float64").fill_null(0.0), np.float64
        )

    hour, minute, second = numbers("hour"), numbers("minute"), numbers("second")
    valid = (hour < 24) & (minute < 60) & (second < 61)
    half = np.asarray(compute.utf8_lower(compute.struct_field(fields, "half")).fill_null(""), object)
    hour = np.where(half == "p", hour % 12 + 12, np.where(half == "a", hour % 12, hour))
    fraction = compute.binary_join_element_wise("0", compute.struct_field(fields, "fraction"), ".")
    part = np.asarray(fraction.cast("float64").fill_null(0.0), np.float64) if len(fraction) else second
    days = (hour * 3600.0 + minute * 60.0 + second + part) / 86400.0
    if form == "time":
        return days, valid
    year, day = numbers("year").astype(int), numbers("day").astype(int)
    if "name" in [field.name for field in fields.type]:
        names = compute.utf8_lower(compute.struct_field(fields, "name")).fill_null("")
        month = np.array([_MONTHS.index(name) + 1 if name in _MONTHS else 0 for name in names.to_pylist()])
    else:
        month = numbers("month").astype(int)
    inside = (month >= 1) & (month <= 12)
    first = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (np.where(inside, month, 1) - 1)
    date = first.astype("datetime64[D]") + (day - 1)
    valid &= inside & (day >= 1) & (date.astype("datetime64[M]") == first)
    return days + date.astype(np.int64), valid


def epoch_unit(values: Sequence[float]) -> str | None:
    """Return the unit in which all numbers are Unix times between 1980 and 2100; None if there is none."""
    for unit, per_day in _UNITS.items():
        if min(values) >= _FIRST_DAY * per_day and max(values) <= _LAST_DAY * per_day:
            return unit
    return None


def is_unit(form: str) -> bool:
    """Return whether dates are written as numbers: Unix times in a unit."""
    return form in _UNITS


def from_numbers(values: Floats, unit: str) -> Floats:
    """Return the days of Unix times in a unit."""
    return values / _UNITS[unit]


def typed_days(values: ArrowArray) -> Floats:
    """Return the days of a column of dates, times or points in time, NaN where a value is missing."""
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_time(values.type):
        per_day = _UNITS[values.type.unit]
        integer = pa.int32() if pa.types.is_time32(values.type) else pa.int64()
        return np.asarray(values.cast(integer).cast(pa.float64()).to_numpy(zero_copy_only=False)) / per_day
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = compute.local_timestamp(values)
    moments = values.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return np.asarray(moments.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / _UNITS["us"]


def parts_of(days: Floats, form: str) -> tuple[str, ...]:
    """Return which features the dates of the first rows have: a date alone has no hour, a time no date.

    Dates that cover more than ten years, such as dates of birth, have neither hour nor weekday.
    """
    present = days[~np.isnan(days)]
    if form == "time":
        return ("hour",)
    if len(present) and np.ptp(present) > LONG:
        return ("days",)
    return ("days", "hour", "weekday") if (present % 1.0 != 0.0).any() else ("days", "weekday")


def features(days: Floats, part: str) -> Floats:
    """Return sine and cosine of the hour or the weekday, one row for each; 0 where the date is missing."""
    # Day 0, 1970-01-01, was a Thursday.
    turns = days % 1.0 if part == "hour" else np.floor(days + 3.0) % 7.0 / 7.0
    angle = 2.0 * np.pi * turns
    waves: Floats = np.nan_to_num(np.stack([np.sin(angle), np.cos(angle)]))
    return waves
