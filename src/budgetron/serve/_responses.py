"""Responses with JSON and problem documents."""

from __future__ import annotations

import json
from typing import Any

import orjson
from starlette.responses import Response

from budgetron.serve._problems import Problem

__all__ = ["json_response", "problem_response", "to_json"]


_encode = json.JSONEncoder(separators=(",", ":")).encode


def to_json(value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # text that is not valid Unicode, or an integer beyond 64 bits
        return _encode(value).encode()


def json_response(value: Any, status: int = 200, kind: str = "application/json") -> Response:
    """Return a response with a value, or with bytes that are JSON already."""
    return Response(value if isinstance(value, bytes) else to_json(value), status, media_type=kind)


def problem_response(problem: Problem) -> Response:
    """Return the response that reports a problem."""
    response = json_response(problem.document(), problem.status, "application/problem+json")
    response.headers["cache-control"] = "no-store"
    if problem.status in (503, 507):
        response.headers["retry-after"] = "1"
    if problem.status == 405:
        response.headers["allow"] = "POST"
    if problem.status in (408, 413):
        response.headers["connection"] = "close"  # the rest of the body is not read
    return response
