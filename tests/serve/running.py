"""A service in a thread of the test, and requests to it."""

import http.client
import json
import threading
from contextlib import contextmanager

import numpy as np
import uvicorn

from budgetron.client import Client
from budgetron.serve import Settings, application, open_service
from budgetron.serve._definition import from_columns
from budgetron.serve._protocol import limited_protocol

COLUMNS = {"a": "number", "b": "number", "colour": ["blue", "green", "red"]}
CLASSES = ["no", "yes"]


def new_model(learner="secondorder:budget=20", columns=None, classes=CLASSES):
    """Return a model that has not learned anything."""
    return from_columns(learner, None, columns or COLUMNS, classes)


def new_regressor(learner="secondorder:budget=20", coverage=None):
    """Return a model of numbers that has not learned anything."""
    return from_columns(learner, None, COLUMNS, None, coverage)


def number_example(number):
    """Return a row and its label, a number; the same for the same `number`."""
    row, _ = example(number)
    return row, round(3 * row["a"] - row["b"] + len(row["colour"]), 6)


def example(number):
    """Return a row and its label; the same for the same number."""
    random = np.random.default_rng(number)
    a, b = random.normal(size=2).round(6).tolist()
    row = {"a": a, "b": b, "colour": ["blue", "green", "red"][number % 3]}
    return row, "yes" if a * b > 0 else "no"


class Running:
    """A service that answers requests at `url`."""

    def __init__(self, service, port, token=None):
        self.service, self.port, self.url, self.token = service, port, f"http://127.0.0.1:{port}", token

    def client(self, **options):
        return Client(self.url, self.token, **{"model": "m", "retries": 0} | options)

    def request(self, method, path, body=None, **headers):
        """Send a request; return the status, the headers, and the parsed body if it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, body, kind | given)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        found = dict(response.getheaders())
        kind = {k.lower(): v for k, v in found.items()}.get("content-type", "")
        return response.status, found, json.loads(data) if "json" in kind else data

    def learn(self, *numbers, name="m", ids=None):
        examples = [dict(zip(("row", "label"), example(n), strict=True)) for n in numbers]
        for place, id in enumerate(ids or []):
            examples[place]["id"] = id
        return self.request("POST", f"/models/{name}/learn", {"examples": examples})

    def predict(self, *numbers, name="m", **options):
        rows = [example(number)[0] for number in numbers]
        return self.request("POST", f"/models/{name}/predict", {"rows": rows} | options)


@contextmanager
def running(folder, models=None, token=None, **settings):
    """Serve a folder; models that it does not have yet are added."""
    service = open_service(folder, Settings(**settings))
    for name, model in (models or {}).items():
        if name not in service.entries:
            service.add(name, model)
    limits = service.settings
    config = uvicorn.Config(
        application(service, token),
        port=0,
        ws="none",
        http=limited_protocol(limits.request_seconds, limits.max_body, limits.max_connections),
        log_level="warning",
        lifespan="on",
        loop="asyncio",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Running(service, port, token)
    finally:
        service.stopping = server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
