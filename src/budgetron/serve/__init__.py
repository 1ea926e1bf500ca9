"""The HTTP service: models that predict while they learn, and that survive restarts (`budgetron serve`).

`open_service` opens a folder of models, and `application` is the ASGI application over it. `run` serves it
until a signal. The command line is the usual way to start it. Needs the extra `serve`.
"""

# From the bottom up: `_problems` are the errors of the API. `_waiting` keeps rows until their labels
# arrive, `_statistics` counts errors, `_tasks` has what is different for classes and for numbers, `_log` is
# the durable log (SQLite). `_model` is one model: how it reads rows, predicts and learns; `_definition`
# makes one, and `_entries` adds its waiting rows. `_writer` is the thread that writes the log and learns,
# `_reader` the thread that predicts, both with `_jobs`; `_service` owns them. `_requests` reads bodies,
# `_access` checks tokens and sizes, `_api` has the HTTP endpoints. `_describe`, `_openapi` and `_metrics`
# describe the service to programs, `_page` and `_panel` to people. `_server` runs uvicorn with `_protocol`.

try:
    import httptools  # noqa: F401 - only whether they are there
    import orjson  # noqa: F401
    import prometheus_client  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"budgetron.serve needs {error.name}: pip install 'budgetron[serve]'", name=error.name
    ) from None

from budgetron.serve._api import application
from budgetron.serve._problems import Problem
from budgetron.serve._server import run
from budgetron.serve._service import Service, Settings, open_service

__all__ = ["Problem", "Service", "Settings", "application", "open_service", "run"]
