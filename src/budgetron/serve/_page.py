"""The live page: the state of all models for people, and a form to try a row.

The page works without JavaScript: it then shows the state at the time of the request. With it, the part
between the headings and the forms is replaced once a second by server-sent events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from html import escape
from importlib.resources import files
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from budgetron.serve._access import COOKIE, is_token
from budgetron.serve._bodies import read_body
from budgetron.serve._describe import describe, health
from budgetron.serve._entries import Entry
from budgetron.serve._panel import panel
from budgetron.serve._problems import Problem, of_fault
from budgetron.serve._service import Service
from budgetron.streams._columns import Column
from budgetron.streams._errors import Fault
from budgetron.streams._times import is_unit

__all__ = ["routes"]

SECONDS = 1.0  # between two updates of the page
MAX_STREAMS = 50  # pages that are updated at the same time
MAX_FORM = 1 << 16
MAX_FIELDS = 60  # columns that the form shows
MAX_GIVEN = 1000  # fields of a form that is sent
NOTES = (
    "<noscript><p>Reload the page to see new numbers.</p></noscript>"
    '<p id="lost" class="bad" role="alert" hidden>The service does not answer. These numbers are old; reload '
    "the page to try again.</p>"
)
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Page:
    """The endpoints that people use."""

    def __init__(self, service: Service, token: str | None) -> None:
        self._service, self._token, self._streams = service, token, 0
        self._recent: asyncio.Future[str] | None = None  # the last update
        self._next = 0.0  # when the next one is due (monotonic time)

    async def show(self, request: Request) -> Response:
        """Send the page."""
        return _html(await asyncio.to_thread(self._document))

    async def try_row(self, request: Request) -> Response:
        """Predict the row of a form; the row does not wait for a label."""
        body = await self._form(request)
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_GIVEN)
        except ValueError:
            raise Problem(413, "too-large", f"a form may have {MAX_GIVEN:,} fields at most") from None
        given = {name: values[-1] for name, values in fields.items()}
        entry = self._service.entry(given.pop("model", ""))
        row = {name.removeprefix("c:"): value for name, value in given.items()}
        try:
            rows = entry.model.reader.read([row])
            found, round = entry.model.predict(rows)
        except Fault as fault:
            return _html(await asyncio.to_thread(self._document, entry, row, of_fault(fault).detail), 422)
        task = entry.model.task
        learned = not task.are_nothing(found.values)[0]
        answer = f"Prediction: {task.text(found)}" if learned else "Nothing was learned yet."
        return _html(await asyncio.to_thread(self._document, entry, row, f"{answer} · round {round:,}"))

    async def events(self, request: Request) -> Response:
        """Send the changing part of the page once a second."""
        if self._streams >= MAX_STREAMS:
            raise Problem(503, "overloaded", f"{MAX_STREAMS} pages are updated already; close one")
        return StreamingResponse(
            self._updates(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _updates(self) -> AsyncIterator[str]:
        self._streams += 1
        try:
            while not self._service.stopping:
                lines = (await self._update()).splitlines()
                yield "".join(f"data: {line}\n" for line in lines) + "\n"
                await asyncio.sleep(SECONDS)
        finally:
            self._streams -= 1

    async def _update(self) -> str:
        """Return the changing part of the page: all pages get the same one, which a thread makes."""
        now = time.monotonic()
        if self._recent is None or now >= self._next:
            self._next = now + SECONDS
            self._recent = asyncio.ensure_future(asyncio.to_thread(self._live))
        return await asyncio.shield(self._recent)

    async def login(self, request: Request) -> Response:
        """Ask for the token, and keep it in a cookie that scripts cannot read."""
        if self._token is None:
            return RedirectResponse("/", 303)
        wrong = ""
        if request.method == "POST":
            body = await self._form(request)
            given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[-1]
            if is_token(given, self._token):
                response: Response = RedirectResponse("/", 303)
                secure = request.url.scheme == "https"
                response.set_cookie(COOKIE, given, httponly=True, samesite="strict", secure=secure)
                return response
            wrong = '<p class="bad" role="alert">This is not the token.</p>'
        form = (
            '<form method="post" action="/login"><label>Token <input name="token" type="password" required '
            'autocomplete="current-password"></label><button>Open</button></form>'
        )
        return _html(_document(f"<h1>Budgetron</h1>{wrong}{form}"), 401 if wrong else 200)

    async def _form(self, request: Request) -> bytes:
        return await read_body(dict(request.headers.raw), request.receive, MAX_FORM)

    # ------------------------------------------------------------------ parts

    def _document(
        self, tried: Entry | None = None, row: dict[str, str] | None = None, answer: str = ""
    ) -> str:
        entries = list(self._service.entries.values())
        forms = "".join(
            _form(entry, row or {}, answer) if entry is tried else _form(entry, {}, "") for entry in entries
        )
        return _document(f'<h1>Budgetron</h1>{NOTES}<div id="live">{self._live()}</div>{forms}', script=True)

    def _live(self) -> str:
        problems = "".join(
            f'<p class="bad" role="alert">{escape(text)}</p>' for text in health(self._service)
        )
        panels = [
            panel(describe(entry), entry.model.statistics.curve)
            for entry in list(self._service.entries.values())
        ]
        return problems + ("\n".join(panels) or "<p>There is no model yet. POST /models creates one.</p>")


def _form(entry: Entry, row: dict[str, str], answer: str) -> str:
    columns = [column for column in entry.model.encoder.columns if column.kind != "none"]
    shown, left = columns[:MAX_FIELDS], len(columns) - MAX_FIELDS
    fields = "".join(
        f'<label>{escape(column.name)} <input name="c:{escape(column.name)}" autocomplete="off" '
        f'value="{escape(row.get(column.name, ""))}" {_hint(column)}></label>'
        for column in shown
    )
    more = f"<p>{left} more columns are left empty.</p>" if left > 0 else ""
    name = escape(entry.name)
    result = f'<p class="answer" role="status">{escape(answer)}</p>' if answer else ""
    # The browser shows this form, and not the beginning of the page, when the answer has arrived.
    tried = ' id="tried" open' if answer else ""
    return (
        f'<details class="try"{tried}><summary>Try a row of {name}</summary>'
        f'<form method="post" action="/try#tried"><input type="hidden" name="model" value="{name}">'
        f'<div class="fields">{fields}</div>{more}<button>Predict</button></form>{result}</details>'
    )


def _hint(column: Column) -> str:
    """Return attributes that say what an input accepts."""
    if column.kind == "number":
        return 'inputmode="decimal" placeholder="number"'
    if column.kind == "time" and not is_unit(column.form):
        return f'placeholder="{escape(column.form or "year-month-day")}"'
    hint = " or ".join(column.levels[:3]) if column.levels else column.description()
    return f'placeholder="{escape(hint)}"'


def _document(content: str, script: bool = False) -> str:
    tag = '<script src="/page.js" defer></script>' if script else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Budgetron</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="/page.css">{tag}</head><body>{content}</body></html>'
    )


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status, headers={"content-security-policy": POLICY})


def _asset(name: str, kind: str) -> Route:
    text = files("budgetron.serve").joinpath(name).read_text(encoding="utf-8")

    async def send(request: Request) -> Response:
        return Response(text, media_type=kind)

    return Route(f"/{name}", send, methods=["GET"])


def routes(service: Service, token: str | None) -> list[Route]:
    """Return the routes of the page."""
    page = Page(service, token)
    return [
        Route("/", page.show, methods=["GET"]),
        Route("/try", page.try_row, methods=["POST"]),
        Route("/events", page.events, methods=["GET"]),
        Route("/login", page.login, methods=["GET", "POST"]),
        _asset("page.css", "text/css"),
        _asset("page.js", "text/javascript"),
    ]
