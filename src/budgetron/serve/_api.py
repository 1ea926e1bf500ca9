"""The HTTP endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from budgetron.serve import _page
from budgetron.serve._access import Access
from budgetron.serve._bodies import Bodies, require_json
from budgetron.serve._describe import describe, health, summary
from budgetron.serve._direct import Direct
from budgetron.serve._log import DiskFullError
from budgetron.serve._metrics import CONTENT_TYPE, metrics
from budgetron.serve._openapi import document
from budgetron.serve._problems import Problem, internal_problem
from budgetron.serve._requests import read_definition
from budgetron.serve._responses import json_response, problem_response
from budgetron.serve._service import Service

__all__ = ["application"]

logger = logging.getLogger("budgetron.serve")


class Api:
    """The endpoints that programs use."""

    def __init__(self, service: Service, bodies: Bodies) -> None:
        self._service, self._bodies = service, bodies
        self._creating = asyncio.Lock()  # the objects of a body may need many times its memory

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints except those of `_direct`."""
        return [
            Route("/models/{name}/file", self.file, methods=["GET"]),
            Route("/models/{name}", self.show, methods=["GET"]),
            Route("/models/{name}", self.delete, methods=["DELETE"]),
            Route("/models", self.list, methods=["GET"]),
            Route("/models", self.create, methods=["POST"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/readyz", self.readyz, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Response:
        """List all models."""
        return json_response({"models": [summary(entry) for entry in list(self._service.entries.values())]})

    async def show(self, request: Request) -> Response:
        """Describe a model."""
        return json_response(describe(self._service.entry(request.path_params["name"])))

    async def create(self, request: Request) -> Response:
        """Create a model."""
        headers = dict(request.headers.raw)
        require_json(headers)
        body = await self._bodies.read(headers, request.receive)
        try:
            async with self._creating:
                name, model = await asyncio.to_thread(read_definition, body)
        finally:
            self._bodies.release(len(body))
        entry = await self._service.create(name, model)
        response = json_response(describe(entry), 201)
        response.headers["location"] = f"/models/{name}"
        return response

    async def delete(self, request: Request) -> Response:
        """Delete a model."""
        await self._service.delete(request.path_params["name"])
        return Response(status_code=204)

    async def file(self, request: Request) -> Response:
        """Send a model as a file."""
        entry = self._service.entry(request.path_params["name"])
        response = Response(await self._service.file(entry), media_type="application/octet-stream")
        response.headers["content-disposition"] = f'attachment; filename="{entry.name}.budgetron"'
        return response

    async def metrics(self, request: Request) -> Response:
        """Send metrics in the text format of Prometheus."""
        return Response(
            await asyncio.to_thread(metrics, self._service), headers={"content-type": CONTENT_TYPE}
        )

    async def healthz(self, request: Request) -> Response:
        """Say that the process answers."""
        return json_response({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Say whether labels can be learned."""
        if problems := health(self._service):
            raise Problem(503, "not-ready", "; ".join(problems))
        return json_response({"status": "ready"})

    async def openapi(self, request: Request) -> Response:
        """Describe all endpoints."""
        return json_response(document())


def application(service: Service, token: str | None = None) -> ASGIApp:
    """Return the ASGI application of a service.

    Parameters
    ----------
    service : Service
        The application starts and stops it.
    token : str, optional
        What clients must send. Without a token, only requests to localhost are answered.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        service.start()
        yield
        if not await asyncio.to_thread(service.stop):
            logger.error("the service did not stop in time; the log has everything that was acknowledged")

    bodies = Bodies(service.settings.max_body)
    routes = [*Api(service, bodies).routes(), *_page.routes(service, token)]
    handlers: dict[Any, Any] = {
        Problem: _on_problem,
        DiskFullError: _on_disk_full,
        HTTPException: _on_http_exception,
        Exception: _on_error,
    }
    others = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    return Direct(service, Access(token), bodies, others)


async def _on_problem(request: Request, problem: Problem) -> Response:
    return problem_response(problem)


async def _on_disk_full(request: Request, error: DiskFullError) -> Response:
    return problem_response(Problem(507, "disk-full", f"the log cannot be written ({error}); free space"))


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
    kinds = {404: "not-found", 405: "wrong-method"}
    details = {
        404: "there is no such address; /openapi.json lists all",
        405: "this address does not accept this method; /openapi.json lists what it accepts",
    }
    kind = kinds.get(error.status_code, "http")
    response = problem_response(
        Problem(error.status_code, kind, details.get(error.status_code, error.detail))
    )
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


async def _on_error(request: Request, error: Exception) -> Response:
    return problem_response(internal_problem())
