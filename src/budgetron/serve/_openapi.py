"""The description of the API (OpenAPI 3.1)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.metadata import version
from typing import Any, TypeAlias

from budgetron.serve._definition import KINDS
from budgetron.serve._requests import MAX_ID, MAX_LEARNER
from budgetron.serve._tasks import MAX_LABEL

__all__ = ["document"]

Schema: TypeAlias = dict[str, Any]

_LABEL: Schema = {
    "description": "A label: text, a number, or true or false.",
    "oneOf": [{"type": "string", "maxLength": MAX_LABEL}, {"type": "number"}, {"type": "boolean"}],
}
_ROW: Schema = {
    "type": "object",
    "description": "Values by column name. A column that is absent or null is missing.",
    "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
}
_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ID,
    "description": "Without NUL characters.",
}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_SHARE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}


def _object(
    properties: dict[str, Schema], required: list[str] | None = None, optional: Collection[str] = ()
) -> Schema:
    """Return an object with these members; all are required if nothing else is given."""
    if required is None:
        required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _list(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": least}


_TASK: Schema = {"enum": ["classification", "regression"]}
_CLASSES: Schema = {
    "description": "All labels; null if labels are numbers.",
    "oneOf": [_list(_LABEL, 2), {"type": "null"}],
}
_ERROR: Schema = {"type": ["number", "null"], "minimum": 0}
# Models of classes have the first four, models of numbers the others.
_ERRORS = {"errors", "error", "recent_error", "balanced_accuracy", "rmse", "recent_rmse", "mae"}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: dict[str, Schema] = {
    "Problem": _object(
        {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "row": _COUNT | {"description": "The place in the list of rows or examples, from 0."},
            "column": {"type": "string"},
            "id": {"type": "string"},
        },
        ["type", "title", "status", "detail"],
    ),
    "PredictRequest": _object(
        {
            "rows": _list(_ROW, 1),
            "keep": {
                "type": "boolean",
                "default": True,
                "description": "Whether the rows wait for their labels. Otherwise they get no ids.",
            },
            "durable": {
                "type": "boolean",
                "default": False,
                "description": "Whether to answer only when the waiting rows are on disk.",
            },
            "sets": {
                "type": "boolean",
                "default": False,
                "description": "Whether to return sets of labels. The model must have a coverage.",
            },
            "intervals": {
                "type": "boolean",
                "default": False,
                "description": "Whether to return intervals. The model must predict numbers, and have them.",
            },
        },
        ["rows"],
    ),
    "PredictResponse": _object(
        {
            "model": {"type": "string"},
            "round": _COUNT | {"description": "How many rows the model had learned."},
            "predictions": _list(
                _object(
                    {
                        "id": {"type": ["string", "null"]},
                        "prediction": {
                            "description": "A label; null if nothing was learned yet.",
                            "type": ["string", "number", "boolean", "null"],
                        },
                        "probabilities": {
                            "description": "By label; null if the learner does not provide them. Models of "
                            "numbers have no such member.",
                            "type": ["object", "null"],
                            "additionalProperties": {"type": "number"},
                        },
                        "set": _list({"type": ["string", "number", "boolean"]})
                        | {"description": "Labels, if sets were asked for: all before the first label."},
                        "interval": {
                            "type": "array",
                            "items": {"type": ["number", "null"]},
                            "maxItems": 2,
                            "description": "Its two ends, if intervals were asked for; null is infinity. "
                            "Without ends, the interval is empty.",
                        },
                    },
                    ["id", "prediction"],
                )
            ),
        }
    ),
    "LearnRequest": _object(
        {
            "examples": _list(
                {
                    "description": "The id of a predicted row, or a row; with both, the row is learned if "
                    "the id is of the client's choice or no longer waits.",
                    **_object({"id": _ID, "row": _ROW, "label": _LABEL}, ["label"]),
                    "anyOf": [{"required": ["id"]}, {"required": ["row"]}],
                },
                1,
            )
        }
    ),
    "LearnResponse": _object(
        {
            "model": {"type": "string"},
            "round": _COUNT,
            "learned": _COUNT,
            "repeated": _list(_ID) | {"description": "Ids that had been learned already; nothing changed."},
            "rejected": _list(_COUNT) | {"description": "Examples that the learner could not compute with."},
        }
    ),
    "NewModel": _object(
        {
            "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"},
            "learner": {"type": "string", "maxLength": MAX_LEARNER, "default": "budget"},
            "memory": {"type": ["string", "null"], "maxLength": MAX_LEARNER, "examples": ["16MB"]},
            "columns": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {
                    "oneOf": [{"enum": list(KINDS)}, _list({"type": "string"}, 1)],
                },
            },
            "task": _TASK | {"default": "classification"},
            "classes": _CLASSES | {"description": "All labels. Required for classification alone."},
            "coverage": {
                "description": "The share of the rows whose set of labels, or interval, should contain the "
                "label.",
                "type": ["number", "null"],
                "exclusiveMinimum": 0,
                "exclusiveMaximum": 1,
            },
        },
        ["name", "columns"],
    ),
    "Summary": _object(
        {
            "name": {"type": "string"},
            "kind": {"type": "string"},
            "round": _COUNT,
            "task": _TASK,
            "classes": _CLASSES,
        }
    ),
    "Model": _object(
        {
            "name": {"type": "string"},
            "kind": {"type": "string"},
            "learner": {"type": "string"},
            "round": _COUNT,
            "task": _TASK,
            "classes": _CLASSES,
            "columns": _list(_object({"name": {"type": "string"}, "read_as": {"type": "string"}})),
            "labels": _COUNT,
            "errors": _COUNT,
            "error": _SHARE,
            "recent_error": _SHARE,
            "balanced_accuracy": _SHARE,
            "rmse": _ERROR,
            "recent_rmse": _ERROR,
            "mae": _ERROR,
            "rows_per_second": _object({"predicted": {"type": "number"}, "learned": {"type": "number"}}),
            "memory": _object(
                {
                    "model": _COUNT,
                    "model_limit": {"type": ["integer", "null"]},
                    "waiting": _COUNT,
                    "waiting_limit": _COUNT,
                    "total": _COUNT,
                    "limit": {"type": ["integer", "null"]},
                }
            ),
            "waiting": {"type": "object"},
            "repeated": _COUNT,
            "rejected": _COUNT,
            "experts": _list({"type": "object"}),
            "changes": _list(_object({"label": _COUNT, "time": {"type": "number"}})),
            "certificate": {
                "description": "A bound that the learner's theorem gives, and what it bounds.",
                "oneOf": [{"type": "null"}, _ref("Certificate")],
            },
            "no_certificate": {"description": "Why there is none.", "type": ["string", "null"]},
        },
        optional=_ERRORS,
    ),
    "Certificate": _object(
        {
            "theorem": {"type": "string"},
            "rounds": _COUNT,
            "counted": {"description": "What the theorem bounds.", "type": "string"},
            "count": {"type": "number"},
            "bound": {"description": "The largest count that the theorem allows.", "type": "number"},
            "holds": {"type": "boolean"},
        }
    ),
    "Models": _object({"models": _list(_ref("Summary"))}),
    "Status": _object({"status": {"type": "string"}}),
}

_PROBLEMS = {
    "400": "The body is not JSON.",
    "401": "The token is missing or wrong.",
    "404": "There is no such model, or no such id.",
    "408": "The body did not arrive in time.",
    "409": "The name is taken, or there are too many models.",
    "410": "The row no longer waits for a label.",
    "413": "The body is too large, or has too many rows.",
    "415": "The body is not of type application/json.",
    "421": "The service was called by a foreign host name.",
    "422": "A value cannot be used; the document says which one, and where.",
    "503": "The service is overloaded or stopping.",
    "507": "The disk is full. Nothing was changed.",
}


def _operation(
    title: str, problems: str, body: str | None = None, status: str = "200", answer: Schema | None = None
) -> Schema:
    """Return an operation; `problems` are the codes of its errors besides those of every operation."""
    kind = {"application/problem+json": {"schema": _ref("Problem")}}
    codes = sorted({*problems.split(), "401", "421"})
    responses: Schema = {code: {"description": _PROBLEMS[code], "content": kind} for code in codes}
    responses[status] = {"description": "Done."} | ({"content": answer} if answer else {})
    found: Schema = {"summary": title, "operationId": title.lower().replace(" ", "-"), "responses": responses}
    if body is not None:
        content = {"application/json": {"schema": _ref(body)}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _json(name: str) -> Schema:
    return {"application/json": {"schema": _ref(name)}}


@cache
def document() -> Schema:
    """Return the description."""
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    body = "400 404 408 413 415 422 503"
    text = {"text/plain": {"schema": {"type": "string"}}}
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Budgetron",
            "version": version("budgetron"),
            "description": "Models that predict while they learn.",
        },
        "security": [{"token": []}],
        "paths": {
            "/models": {
                "get": _operation("List models", "", answer=_json("Models")),
                "post": _operation("Create a model", f"{body} 409 507", "NewModel", "201", _json("Model")),
            },
            "/models/{name}": {
                "parameters": [name],
                "get": _operation("Describe a model", "404", answer=_json("Model")),
                "delete": _operation("Delete a model", "404 503 507", status="204"),
            },
            "/models/{name}/predict": {
                "parameters": [name],
                "post": _operation(
                    "Predict rows", f"{body} 507", "PredictRequest", answer=_json("PredictResponse")
                ),
            },
            "/models/{name}/learn": {
                "parameters": [name],
                "post": _operation(
                    "Learn labels", f"{body} 410 507", "LearnRequest", answer=_json("LearnResponse")
                ),
            },
            "/models/{name}/file": {
                "parameters": [name],
                "get": _operation("Get a model file", "404 503", answer=file),
            },
            "/metrics": {"get": _operation("Get metrics", "", answer=text)},
            "/healthz": {"get": _operation("Get liveness", "", answer=_json("Status"))},
            "/readyz": {"get": _operation("Get readiness", "503", answer=_json("Status"))},
        },
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }
