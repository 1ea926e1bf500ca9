"""Read the bodies of requests."""

from __future__ import annotations

import json
from typing import Any

import orjson

from budgetron.serve._definition import from_columns
from budgetron.serve._entries import Entry
from budgetron.serve._model import ServedModel
from budgetron.serve._problems import Problem, of_fault
from budgetron.serve._tasks import MAX_LABEL
from budgetron.serve._writer import Examples
from budgetron.streams._errors import Fault
from budgetron.streams._objects import PlainRows

__all__ = ["MAX_ID", "MAX_LEARNER", "parse", "read_definition", "read_learn", "read_predict"]

MAX_ID = 200
MAX_LEARNER = 500
# Probabilities in a response, each of which needs about 60 bytes.
MOST_PROBABILITIES = 1_000_000
_ROW_AND_LABEL = {"row", "label"}


def parse(body: bytes) -> dict[str, Any]:
    """Return the object that a body contains."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:  # the errors of the standard library are clearer
        value = _parse_slowly(body)
    if not isinstance(value, dict):
        raise Problem(400, "bad-json", "the body must be a JSON object")
    return value


def _parse_slowly(body: bytes) -> Any:
    try:
        return _decode(body.decode())
    except RecursionError:
        raise Problem(400, "bad-json", "the body is nested too deeply") from None
    except ValueError as error:
        raise Problem(400, "bad-json", f"the body is not JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON; give null for a missing value")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


def read_predict(entry: Entry, body: bytes, max_rows: int) -> tuple[PlainRows, dict[str, bool]]:
    """Return the rows of a request, and its options: see `Service.predict`."""
    given = parse(body)
    _refuse_unknown(given, "rows", "keep", "durable", "sets", "intervals")
    flags = {name: _flag(given, name, name == "keep") for name in ("keep", "durable")}
    sets, intervals = (_wants_regions(entry, given, name) for name in ("sets", "intervals"))
    flags["regions"] = sets or intervals
    if entry.model.task.classes:
        max_rows = min(max_rows, MOST_PROBABILITIES // len(entry.model.task.classes))
    rows = _list(given, "rows", max_rows)
    try:
        read = entry.model.reader.read(rows)
    except Fault as fault:
        raise of_fault(fault) from None
    return read, flags


def _wants_regions(entry: Entry, given: dict[str, Any], name: str) -> bool:
    """Return whether sets or intervals are asked for; raise `Problem` if the model has none."""
    wanted, task = _flag(given, name, False), entry.model.task
    if wanted and task.regions != name:
        detail = f"the model {entry.name} is for {task.name}; it may predict {task.regions}"
        raise Problem(422, f"no-{name}", detail)
    if wanted and not entry.model.predicts_regions:
        detail = (
            f'the model {entry.name} predicts no {name}; create one with "coverage", or serve one that '
            "`budgetron run --coverage 0.9 --save` wrote"
        )
        raise Problem(422, f"no-{name}", detail)
    return wanted


def read_learn(entry: Entry, body: bytes, max_rows: int) -> Examples:
    """Return the examples of a request."""
    given = parse(body)
    _refuse_unknown(given, "examples")
    examples = _list(given, "examples", max_rows)
    ids = [_example_id(place, example) for place, example in enumerate(examples)]
    labels = [_label(entry, place, example["label"]) for place, example in enumerate(examples)]
    places = [place for place, example in enumerate(examples) if "row" in example]
    try:
        rows = entry.model.reader.read([examples[place]["row"] for place in places])
        entry.model.check(rows)
    except Fault as fault:
        raise of_fault(fault, places[fault.row]) from None
    return Examples(ids, labels, rows, places)


def _example_id(place: int, example: object) -> str | None:
    """Return the id of an example, after checking its members."""
    if type(example) is dict and example.keys() == _ROW_AND_LABEL:  # the most frequent case
        return None
    if not isinstance(example, dict):
        raise Problem(422, "bad-example", f"example {place} is not an object with a label", row=place)
    if extra := example.keys() - {"id", "row", "label"}:
        detail = f"example {place} has {min(extra)!r}; it may have id, row and label"
        raise Problem(422, "unknown-member", detail, row=place)
    if "label" not in example:
        raise Problem(422, "bad-example", f"example {place} has no label", row=place)
    id = example.get("id")
    if id is None:
        if "row" not in example:
            raise Problem(422, "bad-example", f"example {place} has neither id nor row", row=place)
        return None
    # SQLite ends text at a NUL character when it reads JSON.
    if not isinstance(id, str) or not 1 <= len(id) <= MAX_ID or not _is_unicode(id) or "\0" in id:
        detail = f"example {place}: an id is text of 1 to {MAX_ID} characters, without NUL characters"
        raise Problem(422, "bad-id", detail, row=place)
    return id


def _label(entry: Entry, place: int, label: Any) -> float:
    """Return a label as the task keeps it."""
    try:
        return entry.model.task.value_of(label)
    except ValueError as error:
        kind = "unknown-label" if entry.model.task.classes else "bad-label"
        raise Problem(422, kind, f"example {place}: {error}", row=place) from None


def read_definition(body: bytes) -> tuple[str, ServedModel]:
    """Return the name of a new model, and the model."""
    given = parse(body)
    _refuse_unknown(given, "name", "learner", "memory", "columns", "task", "classes", "coverage")
    task = given.get("task", "classification")
    if task not in ("classification", "regression"):
        raise Problem(422, "bad-definition", '"task" must be "classification" or "regression"')
    for member in ("name", "columns", *(["classes"] if task == "classification" else [])):
        if member not in given:
            raise Problem(422, "bad-definition", f'"{member}" is missing')
    name, learner, memory = given["name"], given.get("learner", "budget"), given.get("memory")
    for member, value in (("name", name), ("learner", learner), ("memory", memory)):
        wrong = not isinstance(value, str) or len(value) > MAX_LEARNER or not _is_unicode(value)
        if wrong and not (member == "memory" and value is None):
            raise Problem(
                422, "bad-definition", f'"{member}" must be text of at most {MAX_LEARNER} characters'
            )
    columns, classes, coverage = given["columns"], given.get("classes"), given.get("coverage")
    if coverage is not None and (isinstance(coverage, bool) or not isinstance(coverage, int | float)):
        raise Problem(422, "bad-definition", '"coverage" must be a number above 0 and below 1')
    if (
        not isinstance(columns, dict)
        or not all(map(_is_kind, columns.values()))
        or not all(map(_is_unicode, columns))
    ):
        detail = '"columns" must be an object: for each column its kind, or a list of its levels'
        raise Problem(422, "bad-definition", detail)
    if task == "regression" and classes is not None:
        raise Problem(422, "bad-definition", 'a model of the task "regression" has no "classes"')
    if task == "classification" and (not isinstance(classes, list) or not all(map(_is_label, classes))):
        raise Problem(
            422, "bad-definition", '"classes" must be a list of labels: text, numbers, or true and false'
        )
    try:
        return name, from_columns(learner, memory, columns, classes, coverage)
    except (ValueError, TypeError, OverflowError, MemoryError) as error:
        raise Problem(422, "bad-definition", str(error)[:500] or "the model is too large") from error


def _list(given: dict[str, Any], name: str, most: int) -> list[Any]:
    values = given.get(name)
    if not isinstance(values, list) or not values:
        raise Problem(422, "bad-request", f'"{name}" must be a list with at least one entry')
    if len(values) > most:
        raise Problem(413, "too-many-rows", f'"{name}" has {len(values):,} entries; send at most {most:,}')
    return values


def _flag(given: dict[str, Any], name: str, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise Problem(422, "bad-request", f'"{name}" must be true or false')
    return value


def _refuse_unknown(given: dict[str, Any], *known: str) -> None:
    if extra := given.keys() - set(known):
        raise Problem(422, "unknown-member", f"{min(extra)!r} is not known; known are {', '.join(known)}")


def _is_kind(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(level, str) and _is_unicode(level) for level in value)
    )


def _is_label(value: object) -> bool:
    if isinstance(value, str):
        return 1 <= len(value) <= MAX_LABEL and not value.endswith("\0") and _is_unicode(value)
    return isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 2**53)


def _is_unicode(text: str) -> bool:
    """Return whether text can be written; JSON may contain halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
