"""The results of a section: tables, claims and curves, as plain data that is stored in a JSON file.

A column has a name and a kind. Cells contain the measured numbers; `show` formats them by the kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from budgetron._util.units import format_bytes

Cell = str | int | float | bool | None


@dataclass
class Table:
    caption: str
    columns: list[tuple[str, str]]  # name and kind
    rows: list[list[Cell]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        assert len(cells) == len(self.columns)
        self.rows.append(list(cells))


@dataclass
class Claim:
    """A quantity with a target. `value` is None if it could not be measured."""

    claim: str
    value: float | None
    target: float
    kind: str
    at_least: bool = True
    note: str = ""


@dataclass
class Curve:
    label: str
    x: list[float]
    y: list[float]
    ours: bool = True  # False for other libraries and limits, which are drawn in grey


@dataclass
class Panel:
    title: str
    x: str
    y: str
    curves: list[Curve]
    scale: str = "log"  # both axes logarithmic; "log x" for the x axis only
    kind: str = "lines"  # "points": no lines; "list": one row per curve, x and y side by side


@dataclass
class Section:
    title: str
    description: str
    tables: list[Table]
    claims: list[Claim] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)


def holds(claim: dict[str, Any]) -> bool | None:
    if claim["value"] is None:
        return None
    better = claim["value"] >= claim["target"] if claim["at_least"] else claim["value"] <= claim["target"]
    return bool(better)


def show(value: Cell, kind: str) -> str:
    """Return a cell as text, formatted by the kind of its column."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) or kind == "text":
        return str(value)
    match kind:
        case "ratio":
            return f"{value:.2f}x" if abs(value) < 9.95 else f"{value:,.0f}x"
        case "percent":
            return f"{100 * value:.1f} %"
        case "us":
            return digits(1e6 * value)
        case "ms":
            return digits(1e3 * value)
        case "seconds":
            return digits(value)
        case "bytes":
            return format_bytes(value)
        case "tiny":
            return f"{value:.1e}"
        case "int":
            return f"{value:,.0f}"
        case "rate":
            return f"{float(f'{value:.3g}'):,.0f}"
        case _:
            return f"{value:.4g}"


def digits(value: float) -> str:
    """Return a number with three digits and no exponent."""
    if value == 0:
        return "0"
    places = max(0, 2 - int(f"{abs(value):e}".partition("e")[2]))
    return f"{value:,.{places}f}"
