"""Who may send requests, and how large they may be."""

from __future__ import annotations

import asyncio
import hmac
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from budgetron.serve._problems import Problem
from budgetron.serve._responses import problem_response

__all__ = ["COOKIE", "Access", "is_token", "read_body", "require_json"]

COOKIE = "budgetron-token"
OPEN = {"/healthz", "/readyz", "/login", "/page.css"}  # need no token
LOCAL = {"localhost", "127.0.0.1", "[::1]"}
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


def is_token(given: str, token: str) -> bool:
    """Compare tokens in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())


class Access:
    """Refuse requests without the token; without a token, requests under a foreign name of this machine.

    The second check protects a service on the loopback interface from web pages: a page can let its own host
    name point to 127.0.0.1, and the browser would then send requests of the page to the service.
    """

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope["path"], headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        if self._token is None:
            host = headers.get("host", "")
            if host.rpartition(":")[0] in LOCAL or host in LOCAL:
                return None
            detail = "without a token, the service answers only under localhost and 127.0.0.1"
            return problem_response(Problem(421, "foreign-host", detail))
        if path in OPEN or self._has_token(headers):
            return None
        if path == "/" and "text/html" in headers.get("accept", ""):
            return Response(status_code=303, headers={"location": "/login"})
        response = problem_response(Problem(401, "no-token", "send the header Authorization: Bearer TOKEN"))
        response.headers["www-authenticate"] = "Bearer"
        return response

    def _has_token(self, headers: Headers) -> bool:
        assert self._token is not None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return is_token(given.strip(), self._token)
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and is_token(found.value, self._token)


def require_json(request: Request) -> None:
    """Refuse other types of bodies. This also keeps web pages from sending requests without permission."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "not-json", "send the body with the header Content-Type: application/json")


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Return the body of a request, if it is not too large and does not take too long."""
    length = request.headers.get("content-length", "")
    problem = Problem(413, "too-large", f"a body may have {limit:,} bytes at most; send fewer rows at a time")
    if length.isdigit() and int(length) > limit:
        raise problem
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise problem
                parts.append(part)
    except TimeoutError:
        raise Problem(408, "too-slow", f"the body did not arrive within {seconds:g} seconds") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)
