"""Measure `budgetron serve` on this machine, for docs/serve.md.

    python benchmarks/serve.py [--requests 1000000] [--minutes 60]    measure; write docs/serve/results.json

Each server is a process of its own, and so is the load: raw HTTP over 128 connections on the loopback
interface. The empty endpoint is Starlette on uvicorn, with httptools as in the service, and returns a
constant. Empty endpoint, predictions and durable learns are measured in turns, so that the load of the
machine affects all alike. The model is SecondOrderProjectron(100) on rows of 20 numbers. Processor times are
those of the server process, with all threads. On a busy machine, `chrt -r 5` gives all of them real-time
priority. Write the page with benchmarks/generated.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from budgetron._util.atomic import atomic_write

RESULTS = Path(__file__).parent.parent / "docs" / "serve" / "results.json"
NAMES = [f"x{i}" for i in range(20)]
CONNECTIONS, TURNS, BATCH = 128, 9, 1000
TICK = os.sysconf("SC_CLK_TCK")


# ---------------------------------------------------------------------- servers


def serve_empty() -> None:
    """Serve an endpoint that does nothing."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def empty(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    app = Starlette(routes=[Route("/empty", empty, methods=["POST"])])
    options: dict[str, Any] = {"http": "httptools", "log_level": "warning", "access_log": False}
    Server(uvicorn.Config(app, port=0, server_header=False, backlog=2048, **options)).run()


def serve_model(folder: str) -> None:
    """Serve a model that has learned some rows."""
    import numpy as np

    from budgetron.serve import open_service, run
    from budgetron.serve._definition import from_columns

    service = open_service(folder)
    if "m" not in service.entries:
        model = from_columns("secondorder:budget=100", None, dict.fromkeys(NAMES, "number"), [0, 1])
        X = np.random.default_rng(0).normal(size=(3000, len(NAMES)))
        model.model.partial_fit(X, (X[:, 0] * X[:, 1] > 0).astype(int), classes=[0, 1])
        model.encoder.transform({name: X[:, i] for i, name in enumerate(NAMES)})
        model.fitted, model.rounds = True, 3000
        service.add("m", model)
    run(service, port=0, started=lambda port: print(port, flush=True))


@dataclass
class Server:
    """A server process."""

    process: subprocess.Popen[str]
    port: int

    @classmethod
    def start(cls, *arguments: str) -> Server:
        command = [sys.executable, __file__, *arguments]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        return cls(process, int(process.stdout.readline()))

    def seconds(self) -> float:
        """Return the processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident(self) -> int:
        """Return the bytes of memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


# ---------------------------------------------------------------------- the load


def requests(kind: str, count: int, rows: int = 1) -> list[bytes]:
    """Return requests as they are sent."""
    chance = random.Random(0)
    path = "/empty" if kind == "empty" else f"/models/m/{kind}"
    found = []
    for _ in range(count):
        sent = [{name: chance.gauss(0, 1) for name in NAMES} for _ in range(rows)]
        value: dict[str, Any] = {"rows": sent}
        if kind == "learn":
            value = {"examples": [{"row": row, "label": int(row["x0"] * row["x1"] > 0)} for row in sent]}
        body = json.dumps(value).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        )
        found.append(f"{head}{len(body)}\r\n\r\n".encode() + body)
    return found


@dataclass
class Load:
    """Requests that were sent, and how long each took, in seconds."""

    done: int = 0
    seconds: float = 0.0
    times: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    def quantile(self, share: float) -> float:
        return sorted(self.times)[int(share * len(self.times))]


async def send(port: int, sent: list[bytes], connections: int, goes_on: Callable[[], bool]) -> Load:
    """Send requests over several connections, each as soon as its last answer has arrived."""
    load = Load()

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        place = number * len(sent) // connections
        while goes_on():
            start = time.perf_counter()
            writer.write(sent[place % len(sent)])
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            load.times.append(time.perf_counter() - start)
            load.done += 1
            place += 1
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(client(i) for i in range(connections)))
    load.seconds = time.perf_counter() - start
    return load


def run_load(port: int, kind: str, seconds: float, connections: int = CONNECTIONS, rows: int = 1) -> Load:
    sent = requests(kind, 500 if rows == 1 else 20, rows)
    stop = time.perf_counter() + seconds
    return asyncio.run(send(port, sent, connections, lambda: time.perf_counter() < stop))


def run_count(port: int, kind: str, count: int) -> None:
    """Send this number of single-row requests."""
    left = iter(range(count))
    asyncio.run(send(port, requests(kind, 500), CONNECTIONS, lambda: next(left, None) is not None))


async def side_by_side(
    port: int, seconds: float, connections: int, kinds: tuple[str, str] = ("predict", "learn")
) -> dict[str, Load]:
    """Predict and learn single rows at the same time."""
    stop = time.perf_counter() + seconds
    loads = await asyncio.gather(
        *(send(port, requests(kind, 500), connections, lambda: time.perf_counter() < stop) for kind in kinds)
    )
    return dict(zip(kinds, loads, strict=True))


# ---------------------------------------------------------------------- the measurements


def single_rows(empty: Server, model: Server, seconds: float) -> dict[str, Any]:
    """Measure single-row requests in turns with the empty endpoint."""
    rates: dict[str, list[float]] = {"empty": [], "predict": [], "learn": []}
    costs: dict[str, list[float]] = {kind: [] for kind in rates}
    for _ in range(TURNS):
        for kind in rates:
            server = empty if kind == "empty" else model
            before = server.seconds()
            load = run_load(server.port, kind, seconds)
            rates[kind].append(load.rate)
            costs[kind].append(1e6 * (server.seconds() - before) / load.done)
    found: dict[str, Any] = {
        kind: {"per_second": median(rates[kind]), "microseconds": median(costs[kind])} for kind in rates
    }
    for kind in ("predict", "learn"):
        pairs = zip(rates[kind], rates["empty"], strict=True)
        found[kind]["of_empty"] = median(rate / base for rate, base in pairs)
    return found


def batches(model: Server, seconds: float) -> dict[str, dict[str, float]]:
    """Return the rows per second of requests with many rows, and per second of processor time."""
    found: dict[str, dict[str, float]] = {}
    for kind in ("predict", "learn"):
        before = model.seconds()
        load = run_load(model.port, kind, seconds, 2, BATCH)
        by_processor = BATCH * load.done / (model.seconds() - before)
        found[kind] = {"per_second": BATCH * load.rate, "per_processor_second": by_processor}
    return found


def waiting_times(empty: Server, model: Server, seconds: float) -> dict[str, float]:
    """Return how long 99 % of predictions take at most while 4 other connections learn, in milliseconds.

    The empty endpoint is called in the same way, in turns: it shows what the load of the machine adds.
    """
    found: dict[str, list[float]] = {"empty": [], "predict": []}
    for _ in range(TURNS):
        for kind, server in (("empty", empty), ("predict", model)):
            kinds = ("empty", "empty") if kind == "empty" else ("predict", "learn")
            loads = asyncio.run(side_by_side(server.port, seconds, 4, kinds))
            found[kind].append(1e3 * loads[kind].quantile(0.99))
    return {kind: median(values) for kind, values in found.items()}


def memory(model: Server, count: int, minutes: float) -> list[list[int]]:
    """Return the resident memory after parts of this number of requests, until the time is over."""
    points = [[0, model.resident()]]
    parts, stop = 20, time.monotonic() + 60 * minutes
    for part in range(parts):
        if time.monotonic() > stop:
            break
        run_count(model.port, "learn" if part % 2 else "predict", count // parts)
        points.append([(part + 1) * count // parts, model.resident()])
        print(f"{points[-1][0]:,} requests: {points[-1][1] / 2**20:.1f} MB", flush=True)
    return points


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--requests", type=int, default=1_000_000, help="0 keeps the measured memory")
    parser.add_argument("--minutes", type=float, default=60.0, help="most time for these requests")
    parser.add_argument("--empty", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.empty:
        return serve_empty()
    if given.model:
        return serve_model(given.model)
    with tempfile.TemporaryDirectory() as folder:
        empty, model = Server.start("--empty"), Server.start("--model", folder)
        try:
            results: dict[str, Any] = {"single": single_rows(empty, model, given.seconds)}
            results["batches"] = batches(model, given.seconds)
            both = asyncio.run(side_by_side(model.port, 2 * given.seconds, CONNECTIONS // 2))
            results["side_by_side"] = {kind: load.rate for kind, load in both.items()}
            results["p99_ms"] = waiting_times(empty, model, given.seconds)
            print(json.dumps(results, indent=1), flush=True)
            if given.requests:
                results["memory"] = memory(model, given.requests, given.minutes)
            else:
                results["memory"] = json.loads(RESULTS.read_text())["memory"]
        finally:
            empty.stop()
            model.stop()
    results["load"] = os.getloadavg()[0]
    results["realtime"] = os.sched_getscheduler(0) != os.SCHED_OTHER
    RESULTS.parent.mkdir(exist_ok=True)
    with atomic_write(RESULTS) as file:
        file.write(json.dumps(results, indent=1).encode() + b"\n")
    print(json.dumps(results, indent=1))
    return None


if __name__ == "__main__":
    main()
