"""The part of the live page about one model."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from budgetron._util.units import format_bytes

__all__ = ["panel"]

WIDTH, HEIGHT = 600, 150
MOST_EXPERTS = 6


def panel(model: dict[str, Any], curve: Sequence[Sequence[float]]) -> str:
    """Return the state of a model as HTML; `model` is what `describe` returns."""
    memory, waiting, rates = model["memory"], model["waiting"], model["rows_per_second"]
    tiles = [
        _tile("recent error", _percent(model["recent_error"]), "last 1,000 labels"),
        _tile("overall error", _percent(model["error"]), f"{model['labels']:,} labels"),
        _tile("balanced accuracy", _percent(model["balanced_accuracy"]), "mean over the classes"),
        _tile("predicted", f"{rates['predicted']:,.1f}", "rows per second"),
        _tile("learned", f"{rates['learned']:,.1f}", f"rows per second · round {model['round']:,}"),
        _tile("memory", format_bytes(memory["total"]), _of_limit(memory["total"], memory["limit"])),
        _tile(
            "waiting for labels",
            f"{waiting['rows']:,}",
            _meter(waiting["rows"], waiting["limits"]["rows"], f"of {waiting['limits']['rows']:,} rows"),
        ),
        _tile("label delay", _duration(waiting["label_delay_seconds"]), _dropped(waiting)),
    ]
    parts = [_chart(curve, model["changes"]), _changes(model["changes"]), _experts(model["experts"])]
    return (
        f'<section class="model"><h2>{escape(model["name"])} <small>{escape(model["kind"])}, '
        f'{len(model["classes"])} classes</small></h2><dl class="tiles">{"".join(tiles)}</dl>'
        f"{''.join(parts)}{_certificate(model['certificate'])}</section>"
    )


def _tile(name: str, value: str, note: str) -> str:
    key = name.replace(" ", "-")
    shown = f'<dd class="value" data-key="{key}">{value}</dd><dd class="note">{note}</dd>'
    return f"<div><dt>{name}</dt>{shown}</div>"


def _meter(value: float, limit: float, text: str) -> str:
    return f'<meter max="{limit}" value="{value}">{value}</meter> {text}'


def _of_limit(total: int, limit: int | None) -> str:
    return "no limit" if limit is None else _meter(total, limit, f"of {format_bytes(limit)}")


def _dropped(waiting: dict[str, Any]) -> str:
    return f"{waiting['expired']:,} rows expired, {waiting['displaced']:,} displaced"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _chart(curve: Sequence[Sequence[float]], changes: Sequence[dict[str, Any]]) -> str:
    """Return the curve of the recent error, with a line at each change."""
    if len(curve) < 2:
        return '<p class="note">The curve of the recent error starts after 32 labels.</p>'
    last, top = curve[-1][0], max(0.05, *(error for _, error in curve))
    points = " ".join(f"{WIDTH * n / last:.1f},{HEIGHT * (1 - error / top):.1f}" for n, error in curve)
    marks = "".join(
        f'<line class="change" x1="{WIDTH * change["label"] / last:.1f}" y1="0" '
        f'x2="{WIDTH * change["label"] / last:.1f}" y2="{HEIGHT}"/>'
        for change in changes
    )
    label = f"Recent error after 0 to {int(last):,} labels, now {_percent(curve[-1][1])}"
    return (
        f"<figure><figcaption>Error of the last 1,000 labels; full height is {_percent(top)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'{marks}<polyline points="{points}"/></svg>'
        f'<p class="axis"><span>0</span><span>{int(last):,} labels</span></p></figure>'
    )


def _changes(changes: Sequence[dict[str, Any]]) -> str:
    if not changes:
        return '<p class="note">No increase of the error rate was detected.</p>'
    shown = ", ".join(
        f"after {change['label']:,} labels ({datetime.fromtimestamp(change['time'], UTC):%Y-%m-%d %H:%M} UTC)"
        for change in changes[-3:]
    )
    return f'<p class="note changes">The error rate increased {shown}.</p>'


def _experts(experts: Sequence[dict[str, Any]]) -> str:
    if not experts:
        return ""
    active = [expert for expert in experts if expert.get("active", True)]
    best = sorted(active, key=lambda expert: -float(expert["share"]))[:MOST_EXPERTS]
    rows = "".join(
        f'<tr><th scope="row">{escape(str(expert["name"]))}</th><td>{_meter(expert["share"], 1, "")}'
        f"{_percent(expert['share'])}</td><td>{_percent(expert['error'])}</td></tr>"
        for expert in best
    )
    return (
        '<table class="experts"><thead><tr><th scope="col">expert</th><th scope="col">weight</th>'
        f'<th scope="col">error</th></tr></thead><tbody>{rows}</tbody></table>'
    )


def _certificate(certificate: dict[str, Any] | None) -> str:
    if certificate is None:
        return ""
    word = "holds" if certificate["holds"] else "does not hold"
    return (
        f'<p class="certificate">Certificate: the loss exceeds that of the best expert by '
        f"{certificate['regret']:,.1f}; the bound is {certificate['bound']:,.1f}. It {word}.</p>"
    )
