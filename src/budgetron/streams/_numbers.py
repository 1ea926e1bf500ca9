"""How numbers are written: with a decimal point or comma, and with separators of thousands.

A form is the decimal mark, followed by the separator of thousands if there is one. `PLAIN`, the empty form,
is that of programs: a decimal point, no separators, perhaps an exponent.
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
    "PLAIN",
    "UNITS",
    "decimal_mark",
    "find_form",
    "forms_of",
    "is_number",
    "is_plain",
    "number",
    "parse",
    "unit_of",
    "without_unit",
]

# An array of text of pyarrow, which has no types.
TextArray: TypeAlias = Any

PLAIN = ""
_SPACES = (" ", "\u00a0", "\u202f", "'", "\u2019")
FORMS = (",", *(f",{mark}" for mark in (".", *_SPACES)), *(f".{mark}" for mark in (",", *_SPACES)))
UNITS = ("%", "$", "€", "£", "¥")
_PLAIN = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
_DECIMALS = re.compile(r"(?:[-+]?\d++(?:\.\d*+)?\n)*+")  # the most common numbers, one on each line
_PLAIN_ONLY = re.compile(rf"\s*{_PLAIN}\s*")
_PLAIN_OR_WORD = re.compile(rf"\s*({_PLAIN}|[-+]?(nan|inf|infinity))\s*", re.IGNORECASE)


def _pattern(form: str) -> str:
    """Return what a number in this form looks like: groups of three digits, or no separator."""
    if not form:
        return _PLAIN
    mark, separator = re.escape(form[0]), re.escape(form[1:])
    whole = rf"([1-9]\d{{0,2}}({separator}\d{{3}})+|\d+)" if separator else r"\d+"
    return rf"[-+]?({whole}({mark}\d*)?|{mark}\d+)"


_PATTERNS = {form: re.compile(rf"\s*{_pattern(form)}\s*") for form in FORMS}


def is_plain(values: Sequence[str]) -> bool:
    """Return whether all values are plain numbers. NaN and infinity are, too; they are refused later."""
    return _are_decimals(values) or all(map(_PLAIN_OR_WORD.fullmatch, values))


def _are_decimals(values: Sequence[str]) -> bool:
    """Return whether all values are digits, perhaps with a sign and a point; much faster than `is_plain`."""
    lines = "\n".join([*values, ""])
    return lines.count("\n") == len(values) and _DECIMALS.fullmatch(lines) is not None


def forms_of(values: Sequence[str]) -> list[str]:
    """Return the forms in which all values are numbers; none if the values are not numbers."""
    decimals = _are_decimals(values)  # these fit every form with a decimal point
    forms = [PLAIN] if decimals or is_plain(values) else []
    if forms and not any("." in value for value in values):
        return forms
    return forms + [
        form for form in FORMS if (decimals and form[0] == ".") or all(map(_PATTERNS[form].fullmatch, values))
    ]


def unit_of(values: Sequence[str]) -> str:
    """Return the sign of percent or of a currency that all values have; "" if there is none."""
    return next((unit for unit in UNITS if values and all(unit in value for value in values)), "")


def without_unit(value: str, unit: str) -> str:
    """Return a value without the unit at its beginning, behind its sign, or at its end."""
    sign, rest = (value[:1], value[1:]) if value[:1] in ("-", "+") else ("", value)
    return sign + rest.removeprefix(unit).removesuffix(unit).strip()


def is_number(value: str) -> bool:
    """Return whether a value is a number in some form."""
    return is_plain([value]) or any(pattern.fullmatch(value) for pattern in _PATTERNS.values())


def decimal_mark(values: Sequence[str], forms: Sequence[str]) -> str | None:
    """Return the decimal mark if the values leave no doubt about it."""
    marks = {form[:1] or "." for form in forms}
    written = any("." in value or "," in value for value in values)
    return marks.pop() if len(marks) == 1 and written else None


def find_form(values: Sequence[str], forms: Sequence[str], decimal: str | None) -> str:
    """Return the form of the values, given the decimal mark of the file if it is known.

    Raises `Fault` if two forms give different numbers: 1,234 may be one thousand or one. A point is a decimal
    point, unless the file has decimal commas.
    """
    if PLAIN in forms and (decimal != "," or ",." not in forms):
        return PLAIN
    fitting = [form for form in forms if (form[:1] or ".") == decimal] or list(forms)
    for row, value in enumerate(values):
        numbers = {_number(value, form) for form in fitting}
        if len(numbers) > 1:
            shown = " or ".join(f"{number:g}" for number in sorted(numbers))
            raise Fault(row, f"has {value!r}, which may be {shown}", Advice.DECIMAL)
    return max(fitting, key=len)


def _number(value: str, form: str) -> float:
    if form[1:]:
        value = value.replace(form[1:], "")
    return float(value.replace(",", ".") if form[:1] == "," else value)


def number(text: str, form: str) -> float | None:
    """Return the number that is written in this form, or None if the text is not one."""
    pattern = _PATTERNS[form] if form else _PLAIN_ONLY
    return _number(text.strip(), form) if pattern.fullmatch(text) else None


def parse(values: TextArray, form: str, unit: str, name: str, na_values: Iterable[str]) -> Floats:
    """Return numbers that are written in this form, perhaps with a unit; NaN where a value is missing."""
    import pyarrow as pa
    from pyarrow import compute

    text = compute.utf8_trim_whitespace(values)
    text = compute.if_else(compute.is_in(text, pa.array(list(na_values), text.type)), None, text)
    if unit:
        sign = re.escape(unit)
        text = compute.replace_substring_regex(text, rf"^([-+]?){sign}\s*|\s*{sign}$", r"\1")
    fits = compute.match_substring_regex(text, f"^{_pattern(form)}$").fill_null(True)
    if not compute.all(fits, min_count=0).as_py():
        row = fits.index(False).as_py()
        problem = f'column "{name}" has {values[row].as_py()!r}, but numbers before'
        raise Fault(row, problem, Advice.CATEGORICAL)
    if form[1:]:
        text = compute.replace_substring(text, form[1:], "")
    if form[:1] == ",":
        text = compute.replace_substring(text, ",", ".")
    text = compute.replace_substring_regex(text, r"^\+", "")
    return np.asarray(text.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
