"""The part of the live page about one model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from budgetron._evaluation.regression_result import error_text
from budgetron._util.units import format_bytes

__all__ = ["panel"]

WIDTH, HEIGHT = 600, 150
MOST_EXPERTS = 6


def panel(model: dict[str, Any], curve: Sequence[Sequence[float]]) -> str:
    """Return the state of a model as HTML; `model` is what `describe` returns."""
    memory, waiting, rates = model["memory"], model["waiting"], model["rows_per_second"]
    tiles = [
        *_errors(model),
        _tile("predicted", f"{rates['predicted']:,.1f}", "rows per second"),
        _tile("learned", f"{rates['learned']:,.1f}", f"rows per second · round {model['round']:,}"),
        _tile("memory", format_bytes(memory["total"]), _memory(memory)),
        _tile(
            "waiting for labels",
            f"{waiting['rows']:,}",
            _meter(waiting["rows"], waiting["limits"]["rows"], _oldest(waiting)),
        ),
        _tile("label delay", _duration(waiting["label_delay_seconds"]), _delay(waiting)),
    ]
    classes = model["classes"]
    if classes is None:
        predicts, chart = "numbers", _chart(curve, [], "RMSE", error_text, 0.0)
    else:
        predicts, chart = f"{len(classes)} classes", _chart(curve, model["changes"], "error", _percent, 0.05)
        chart += _changes(model["changes"])
    parts = [chart, _experts(model["experts"])]
    return (
        f'<section class="model"><h2>{escape(model["name"])} <small>{escape(model["kind"])}, '
        f'{predicts}</small></h2><dl class="tiles">{"".join(tiles)}</dl>'
        f"{''.join(parts)}{_certificate(model['certificate'], model['no_certificate'])}</section>"
    )


def _errors(model: dict[str, Any]) -> list[str]:
    """Return the tiles with the errors of a model."""
    labels = f"{model['labels']:,} labels"
    if model["classes"] is None:
        tiles = [
            ("recent RMSE", "recent_rmse", "last 1,000 labels"),
            ("overall RMSE", "rmse", labels),
            ("mean absolute error", "mae", labels),
        ]
        shown = _number
    else:
        tiles = [
            ("recent error", "recent_error", "last 1,000 labels"),
            ("overall error", "error", labels),
            ("balanced accuracy", "balanced_accuracy", "mean over the classes"),
        ]
        shown = _percent
    none = "" if model["labels"] else "no label was learned yet"
    return [_tile(name, shown(model[key]), none or note) for name, key, note in tiles]


def _tile(name: str, value: str, note: str) -> str:
    key = name.replace(" ", "-")
    shown = f'<dd class="value" data-key="{key}">{value}</dd><dd class="note">{note}</dd>'
    return f"<div><dt>{name}</dt>{shown}</div>"


def _meter(value: float, limit: float, text: str) -> str:
    return f'<meter max="{limit}" value="{value}">{value}</meter> {text}'


def _memory(memory: dict[str, Any]) -> str:
    """Return what is included in the memory, and its limits."""
    model, limit = format_bytes(memory["model"]), memory["model_limit"]
    of_model = f"{model}, no limit in bytes" if limit is None else f"{model} of {format_bytes(limit)}"
    waiting = f"{format_bytes(memory['waiting'])} of {format_bytes(memory['waiting_limit'])}"
    parts = f"model {of_model}; waiting rows {waiting}"
    if memory["limit"] is None:
        return parts
    return _meter(memory["total"], memory["limit"], f"of {format_bytes(memory['limit'])}: {parts}")


def _oldest(waiting: dict[str, Any]) -> str:
    limit, oldest = f"of {waiting['limits']['rows']:,} rows", waiting["oldest_seconds"]
    return limit if oldest is None else f"{limit}, the oldest for {_duration(oldest)}"


def _delay(waiting: dict[str, Any]) -> str:
    dropped = f"{waiting['expired']:,} rows expired, {waiting['displaced']:,} displaced"
    if waiting["label_delay_seconds"] is None:
        return f"no label by id yet · {dropped}"
    return f"from prediction to label · {dropped}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else error_text(value)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def _chart(
    curve: Sequence[Sequence[float]],
    changes: Sequence[dict[str, Any]],
    name: str,
    shown: Callable[[float], str],
    least: float,
) -> str:
    """Return the curve of the recent error, with a line at each change; its height is at least `least`."""
    if len(curve) < 2:
        return f'<p class="note">The curve of the recent {name} starts after 32 labels.</p>'
    last, top = curve[-1][0], max(least, *(error for _, error in curve))
    height = HEIGHT / (top or 1.0)
    points = " ".join(f"{WIDTH * n / last:.1f},{HEIGHT - height * error:.1f}" for n, error in curve)
    marks = "".join(
        f'<line class="change" x1="{WIDTH * change["label"] / last:.1f}" y1="0" '
        f'x2="{WIDTH * change["label"] / last:.1f}" y2="{HEIGHT}"/>'
        for change in changes
    )
    label = f"Recent {name} after 0 to {int(last):,} labels, now {shown(curve[-1][1])}"
    title = f"{name[0].upper()}{name[1:]} of the last 1,000 labels; full height is {shown(top)}"
    return (
        f"<figure><figcaption>{title}</figcaption>"
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
    ordered = sorted(experts, key=lambda expert: -_weight(expert))
    best, others = ordered[:MOST_EXPERTS], ordered[MOST_EXPERTS:]
    rows = [_expert(str(expert["name"]), _weight(expert), _error(expert)) for expert in best]
    if others:
        name = f"{len(others)} other{'s' if len(others) > 1 else ''} together"
        rows.append(_expert(name, sum(map(_weight, others)), "<td></td>" if _error(best[0]) else ""))
    error = '<th scope="col">its own error</th>' if _error(best[0]) else ""
    kind = "vote" if error else "mean"
    return (
        f'<table class="experts"><caption>The prediction is a weighted {kind} of experts. All weights add up '
        f'to 100 %.</caption><thead><tr><th scope="col">expert</th><th scope="col">weight in the {kind}</th>'
        f"{error}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _weight(expert: dict[str, Any]) -> float:
    """Return the weight of an expert, which classifiers call its share."""
    return float(expert["share"] if "share" in expert else expert["weight"])


def _error(expert: dict[str, Any]) -> str:
    """Return a cell with the error of an expert; empty for a regressor, whose experts do not count errors."""
    return f"<td>{_percent(expert['error'])}</td>" if "error" in expert else ""


def _expert(name: str, weight: float, error: str) -> str:
    return (
        f'<tr><th scope="row">{escape(name)}</th><td class="share">{_meter(weight, 1, "")}{_percent(weight)}'
        f"</td>{error}</tr>"
    )


def _certificate(certificate: dict[str, Any] | None, reason: str | None) -> str:
    if certificate is None:
        return f'<p class="note certificate">No certificate: {escape(reason or "")}.</p>'
    word = "holds" if certificate["holds"] else "does not hold"
    return (
        f'<p class="certificate">Certificate after {certificate["rounds"]:,} rounds: '
        f"{certificate['counted']}: {certificate['count']:,.1f}. The theorem allows at most "
        f"{certificate['bound']:,.1f}; it {word}. <small>{escape(certificate['theorem'])}</small></p>"
    )
