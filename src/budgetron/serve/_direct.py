"""The endpoints that most requests use: predict and learn.

They are plain ASGI, without the framework's routing and request objects, which would take as long as a
prediction. Everything else goes to the framework.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from budgetron.serve._access import Access
from budgetron.serve._bodies import Bodies, require_json
from budgetron.serve._entries import Entry
from budgetron.serve._problems import Problem, internal_problem
from budgetron.serve._requests import read_learn, read_predict
from budgetron.serve._responses import problem_response
from budgetron.serve._service import Service

__all__ = ["Direct"]

logger = logging.getLogger("budgetron.serve")

T = TypeVar("T")

# Longer bodies are parsed outside of the event loop.
SHORT_BODY = 1 << 15
JSON = (b"content-type", b"application/json")


class Direct:
    """An application that checks access, and handles predictions and labels itself.

    Parameters
    ----------
    service : Service
    access : Access
    bodies : Bodies
    others : ASGI application
        Gets all other requests, after the check of access.
    """

    def __init__(self, service: Service, access: Access, bodies: Bodies, others: ASGIApp) -> None:
        self._service, self._access, self._bodies, self._others = service, access, bodies, others
        self._parser = ThreadPoolExecutor(1, "budgetron-parse")
        self._actions = {"predict": self._predict, "learn": self._learn}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._others(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._access.refusal(scope["path"], headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        parts = scope["path"].split("/")
        action = self._actions.get(parts[3]) if len(parts) == 4 and parts[1] == "models" else None
        if action is None:
            await self._others(scope, receive, send)
            return
        try:
            if scope["method"] != "POST":
                raise Problem(405, "wrong-method", "this address accepts POST alone")
            body = await action(parts[2], headers, receive)
        except Problem as problem:
            await problem_response(problem)(scope, receive, send)
            return
        except asyncio.CancelledError:  # the time for requests to end is over
            stopping = Problem(503, "stopping", "the service is stopping; send the request again later")
            await problem_response(stopping)(scope, receive, send)
            return
        except Exception:
            logger.exception("a request to %s failed", scope["path"])
            await problem_response(internal_problem())(scope, receive, send)
            return
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [JSON, length]})
        await send({"type": "http.response.body", "body": body})

    async def _predict(self, name: str, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Predict rows."""
        service = self._service
        entry = service.entry(name)
        require_json(headers)
        body = await self._bodies.read(headers, receive)
        try:
            rows, flags = await self._parsed(read_predict, entry, body)
            return await service.predict(entry, rows, **flags)
        finally:
            self._bodies.release(len(body))

    async def _learn(self, name: str, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Learn labels."""
        service = self._service
        entry = service.entry(name)
        require_json(headers)
        body = await self._bodies.read(headers, receive)
        try:
            return await service.learn(entry, await self._parsed(read_learn, entry, body))
        finally:
            self._bodies.release(len(body))

    async def _parsed(self, read: Callable[..., T], entry: Entry, body: bytes) -> T:
        """Parse a body: a long one in a thread, so that other requests need not wait.

        Only one is parsed at a time, because the objects of a body may need many times its memory.
        """
        most = self._service.settings.max_rows
        if len(body) <= SHORT_BODY:
            return read(entry, body, most)
        return await asyncio.get_running_loop().run_in_executor(self._parser, read, entry, body, most)
