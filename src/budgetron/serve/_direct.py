"""The endpoints that most requests use: predict and learn.

They are plain ASGI, without the framework's routing and request objects, which would take as long as a
prediction. Everything else goes to the framework.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from budgetron.serve._access import Access
from budgetron.serve._bodies import read_body, require_json
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
    others : ASGI application
        Gets all other requests, after the check of access.
    """

    def __init__(self, service: Service, access: Access, others: ASGIApp) -> None:
        self._service, self._access, self._others = service, access, others
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
        body = await self._body(headers, receive)
        rows, flags = await _parsed(read_predict, entry, body, service.settings.max_rows)
        return await service.predict(entry, rows, **flags)

    async def _learn(self, name: str, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """Learn labels."""
        service = self._service
        entry = service.entry(name)
        body = await self._body(headers, receive)
        examples = await _parsed(read_learn, entry, body, service.settings.max_rows)
        return await service.learn(entry, examples)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        require_json(headers)
        return await read_body(headers, receive, self._service.settings.max_body)


async def _parsed(read: Callable[..., T], entry: Any, body: bytes, max_rows: int) -> T:
    """Read a body: a long one in a thread, so that other requests need not wait."""
    if len(body) <= SHORT_BODY:
        return read(entry, body, max_rows)
    return await asyncio.to_thread(read, entry, body, max_rows)
