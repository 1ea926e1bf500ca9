"""Receive the bodies of requests, within limits of size."""

from __future__ import annotations

from starlette.types import Receive

from budgetron.serve._problems import Problem

__all__ = ["Bodies", "read_body", "require_json"]

# All bodies together may have this many times the size of the largest one.
TOGETHER = 4
# So many bytes of each body do not count, so that slow clients with large bodies do not keep others from
# sending small ones.
FREE = 1 << 16


def require_json(headers: dict[bytes, bytes]) -> None:
    """Refuse other types of bodies, and compressed ones.

    This also keeps web pages from sending requests without permission.
    """
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json" and kind.partition(b";")[0].strip().lower() != b"application/json":
        raise Problem(415, "not-json", "send the body with the header Content-Type: application/json")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise Problem(415, "encoded", "send the body as it is, without the header Content-Encoding")


class Bodies:
    """The size of the bodies of all requests that are not answered yet, which is limited.

    Parameters
    ----------
    most : int
        Bytes of the largest body.
    """

    def __init__(self, most: int) -> None:
        self._most, self._left = most, TOGETHER * most

    async def read(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Return the body of a request; the caller calls `release` with its size after the answer."""
        return await read_body(headers, receive, self._most, self)

    def take(self, before: int, size: int) -> None:
        """Count a body that had `before` bytes and now has `size`, or raise `Problem`."""
        more = max(0, size - FREE) - max(0, before - FREE)
        if more > self._left:
            raise Problem(503, "overloaded", "too many large requests wait; try again later")
        self._left -= more

    def release(self, size: int) -> None:
        """Stop counting a body of this size."""
        self._left += max(0, size - FREE)


async def read_body(
    headers: dict[bytes, bytes], receive: Receive, limit: int, bodies: Bodies | None = None
) -> bytes:
    """Return the body of a request, if it is not too large; `_protocol` limits its time.

    `bodies` counts its bytes; after an error, they are no longer counted.
    """
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "disconnected", "the client closed the connection")
            part = message.get("body", b"")
            if size + len(part) > limit:
                raise _too_large(limit)
            if bodies is not None:
                bodies.take(size, size + len(part))
            size += len(part)
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)
    except BaseException:
        if bodies is not None:
            bodies.release(size)
        raise


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"a body may have {limit:,} bytes at most; send fewer rows at a time")
