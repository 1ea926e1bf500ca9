"""The HTTP protocol of uvicorn, with limits for requests that do not arrive completely."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from budgetron.serve._problems import Problem

__all__ = ["limited_protocol"]

MAX_HEAD = 1 << 16


class JoinedWrites:
    """A transport that joins all writes of one turn of the event loop into one.

    uvicorn writes the head and the body of a response one after the other. Each would be a system call, and
    would wake the client.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data at the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class LimitedProtocol(HttpToolsProtocol):
    """Answer 408 or 431, and close the connection, if a request takes too long, or too many bytes, to arrive.

    The connection is also closed if the client reads nothing of a response for as long, and if there are too
    many connections.

    uvicorn closes idle connections only between two requests. Without the limit of time, clients that send
    one byte at a time could use up all connections. A request that arrives at once needs no timer. uvicorn
    has no limit for heads and trailers of requests, either. The application limits the size of bodies.
    """

    seconds: ClassVar[float] = 30.0
    most_bytes: ClassVar[int] = 1 << 30
    most_connections: ClassVar[int] = 1000
    _deadline: asyncio.TimerHandle | None = None
    _receiving = False  # whether a request has begun to arrive, and is not complete
    _bytes = 0  # how many bytes of it have arrived, besides those of the first part of data
    _limit = MAX_HEAD
    _reading: asyncio.TimerHandle | None = None  # while the client has not read what was sent
    _unread = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self.most_connections:
            self._refuse(503, "overloaded", "there are too many connections; try again later")
        else:
            self._start_deadline()

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        super().data_received(data)
        if self._receiving:
            if self._bytes > self._limit:
                self._refuse(431, "too-large", f"the head of a request may have {MAX_HEAD:,} bytes")
            elif self._deadline is None:
                self._start_deadline()

    def on_message_begin(self) -> None:
        self._receiving, self._bytes, self._limit = True, 0, MAX_HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._limit = self.most_bytes
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._receiving = False
        self._end_deadline()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_reading()

    def resume_writing(self) -> None:
        self._end_reading()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        self._end_reading()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.seconds, self._end)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        self._refuse(408, "too-slow", f"the request did not arrive within {self.seconds:g} seconds")

    def _start_reading(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self.seconds, self._check_reading)

    def _end_reading(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _check_reading(self) -> None:
        if self.transport.get_write_buffer_size() < self._unread:
            self._start_reading()
        else:
            self.transport.abort()

    def _refuse(self, status: int, kind: str, detail: str) -> None:
        """Answer a request that did not arrive completely, and close the connection."""
        if self.transport.is_closing():
            return
        cycle = self.cycle  # of this request, or of the last one if the head is not complete
        if cycle is None or not cycle.response_started or cycle.response_complete:
            problem = Problem(status, kind, detail).document()
            body = json.dumps(problem).encode()
            head = f"HTTP/1.1 {status} {problem['title']}\r\nConnection: close\r\n"
            head += f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.transport.close()


def limited_protocol(seconds: float, max_body: int, max_connections: int) -> type[LimitedProtocol]:
    """Return the protocol with these limits."""
    # A body in small parts takes several times its size.
    limits = {
        "seconds": seconds,
        "most_bytes": MAX_HEAD + 8 * max_body,
        "most_connections": max_connections,
    }
    return type("LimitedProtocol", (LimitedProtocol,), limits)
