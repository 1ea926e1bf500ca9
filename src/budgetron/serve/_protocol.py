"""The HTTP protocol of uvicorn, with a time limit for the headers of a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["HEADER_SECONDS", "TimedProtocol"]

HEADER_SECONDS = 15.0


class TimedProtocol(HttpToolsProtocol):
    """Close a connection whose request does not have all of its headers in time.

    uvicorn closes idle connections only between two requests. Without this limit, clients that send one byte
    at a time could use up all connections.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_deadline()

    def on_message_begin(self) -> None:
        self._start_deadline()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_deadline()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_deadline()
        super().connection_lost(exc)

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._close)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
