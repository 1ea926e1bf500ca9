"""The HTTP protocol of uvicorn, with a time limit for each request."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from budgetron.serve._problems import Problem

__all__ = ["TimedProtocol", "timed_protocol"]


class TimedProtocol(HttpToolsProtocol):
    """Answer 408, and close the connection, if a request does not arrive completely in time.

    uvicorn closes idle connections only between two requests. Without this limit, clients that send one byte
    at a time could use up all connections. A request that arrives at once needs no timer.
    """

    seconds: ClassVar[float] = 30.0
    _deadline: asyncio.TimerHandle | None = None
    _receiving = False  # whether a request has begun to arrive, and is not complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._receiving and self._deadline is None:
            self._start_deadline()

    def on_message_begin(self) -> None:
        self._receiving = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._receiving = False
        self._end_deadline()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.seconds, self._end)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        cycle = self.cycle  # of this request, or of the last one if the head is not complete
        if cycle is None or not cycle.response_started or cycle.response_complete:
            problem = Problem(408, "too-slow", f"the request did not arrive within {self.seconds:g} seconds")
            body = json.dumps(problem.document()).encode()
            head = "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n"
            head += f"Content-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.transport.close()


def timed_protocol(seconds: float) -> type[TimedProtocol]:
    """Return the protocol with this limit."""
    return type("TimedProtocol", (TimedProtocol,), {"seconds": seconds})
