"""Who may send requests."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie

from starlette.responses import Response

from budgetron.serve._problems import Problem
from budgetron.serve._responses import problem_response

__all__ = ["COOKIE", "Access", "is_token"]

COOKIE = "budgetron-token"
OPEN = {"/healthz", "/readyz", "/login", "/page.css"}  # need no token
LOCAL = {b"localhost", b"127.0.0.1", b"[::1]"}


def is_token(given: str, token: str) -> bool:
    """Compare tokens in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())


class Access:
    """Refuse requests without the token; without a token, requests under a foreign name of this machine.

    The second check protects a service on the loopback interface from web pages: a page can let its own host
    name point to 127.0.0.1, and the browser would then send requests of the page to the service.
    """

    def __init__(self, token: str | None) -> None:
        if token is not None and not token:
            raise ValueError("the token must not be empty")
        self._token = token

    def refusal(self, path: str, headers: dict[bytes, bytes]) -> Response | None:
        """Return the response to a request that is not allowed; None if it is."""
        if self._token is None:
            host = headers.get(b"host", b"").lower()
            if host.rpartition(b":")[0] in LOCAL or host in LOCAL:
                return None
            detail = "without a token, the service answers only under localhost and 127.0.0.1"
            return problem_response(Problem(421, "foreign-host", detail))
        if path in OPEN or self._has_token(headers):
            return None
        if path == "/" and b"text/html" in headers.get(b"accept", b""):
            return Response(status_code=303, headers={"location": "/login"})
        response = problem_response(Problem(401, "no-token", "send the header Authorization: Bearer TOKEN"))
        response.headers["www-authenticate"] = "Bearer"
        return response

    def _has_token(self, headers: dict[bytes, bytes]) -> bool:
        assert self._token is not None
        kind, _, given = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if kind.lower() == "bearer":
            return is_token(given.strip(), self._token)
        try:
            found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and is_token(found.value, self._token)
