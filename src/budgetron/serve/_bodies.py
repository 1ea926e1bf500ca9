"""Receive the bodies of requests, within a limit of size."""

from __future__ import annotations

from starlette.types import Receive

from budgetron.serve._problems import Problem

__all__ = ["read_body", "require_json"]


def require_json(headers: dict[bytes, bytes]) -> None:
    """Refuse other types of bodies. This also keeps web pages from sending requests without permission."""
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "not-json", "send the body with the header Content-Type: application/json")


async def read_body(headers: dict[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """Return the body of a request, if it is not too large; `_protocol` limits its time."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "disconnected", "the client closed the connection")
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"a body may have {limit:,} bytes at most; send fewer rows at a time")
