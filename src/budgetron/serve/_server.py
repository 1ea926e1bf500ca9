"""Run the service with uvicorn until a signal."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import uvicorn

try:
    import resource
except ImportError:  # not a Unix system
    resource = None  # type: ignore[assignment]

from budgetron._util.threads import one_thread
from budgetron.serve._api import application
from budgetron.serve._protocol import limited_protocol
from budgetron.serve._service import Service

__all__ = ["run"]

logger = logging.getLogger("budgetron.serve")

# Threads take turns at least this often, in seconds. Python's default of 5 ms would add up in a request that
# needs several turns.
SWITCH_SECONDS = 0.0002
# New objects after which Python looks for unused cycles of objects. Its default of 700 is less than what a
# hundred requests at a time need.
COLLECT_AFTER = 20_000
# Connections that the system keeps until they are accepted. asyncio accepts so many at once.
BACKLOG = 128
# Files besides the connections of clients: log, snapshots, libraries, and connections that are refused.
OTHER_FILES = 64 + 4 * BACKLOG


class _Server(uvicorn.Server):
    """A server that tells the service about a signal at once, so that endless responses end."""

    def __init__(
        self, config: uvicorn.Config, service: Service, started: Callable[[int], None] | None
    ) -> None:
        super().__init__(config)
        self._service, self._notify = service, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._notify is not None and self.started:
            self._notify(self.servers[0].sockets[0].getsockname()[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not uvicorn's own method, which raises the signal again at the end: a stop is not a failure.
        self._service.stopping = True
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def _possible_connections(wanted: int) -> int:
    """Raise the limit of open files if it is too low for so many connections; return how many it allows.

    When no more files can be opened, asyncio only retries to accept connections, and does nothing else.
    """
    if resource is None:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    allowed = max(1, soft - OTHER_FILES)
    if allowed < wanted:
        logger.warning(
            "the limit of %d open files allows %d connections instead of %d; raise it with `ulimit -n`",
            soft,
            allowed,
            wanted,
        )
    return allowed


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
        raise ValueError(f"cannot listen on {host}, port {port}: {reason}") from None


def run(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    started: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; then finish all requests, and write snapshots.

    Parameters
    ----------
    service : Service
        Opened, not started.
    host, port
        Where to listen; port 0 chooses a free one.
    token : str, optional
        What clients must send; needed if `host` is not of this machine alone.
    started : callable, optional
        Called with the port when the service accepts requests.
    """
    if host not in ("127.0.0.1", "::1", "localhost") and not token:
        raise ValueError(f"{host} can be reached from other machines; give a token")
    listening = _listen(host, port)
    sys.setswitchinterval(SWITCH_SECONDS)
    settings = service.settings
    connections = min(settings.max_connections, _possible_connections(settings.max_connections))
    config = uvicorn.Config(
        application(service, token),
        http=limited_protocol(settings.request_seconds, settings.max_body, connections),
        ws="none",
        proxy_headers=False,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, int(settings.stop_seconds / 4)),
    )
    # Objects that exist now stay. Python's collector of unused cycles need not look at them again and again:
    # that took about a fifth of the processor time under load, and stopped all threads each time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
    with one_thread():  # once, because it takes too long for each prediction
        _Server(config, service, started).run(sockets=[listening])
