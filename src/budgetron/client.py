"""A client of `budgetron serve`, of the standard library alone.

>>> from budgetron.client import Client
>>> client = Client("http://127.0.0.1:8000")  # nothing is sent yet
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

__all__ = ["Client", "ServiceError"]

Row: TypeAlias = Mapping[str, object]
Label: TypeAlias = "str | int | float | bool"

# Answers that say: try again later.
BUSY = (503,)


class ServiceError(Exception):
    """An error that the service reported.

    Attributes
    ----------
    status : int
        The HTTP status; 0 if the service did not answer.
    problem : dict
        The problem document; its ``detail`` is the message of the error.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or f"status {status}")
        self.status, self.problem = status, problem


class Client:
    """Predict and learn with a model of a service.

    A request that fails because the service does not answer, or is overloaded, is sent again. This is safe:
    predictions change nothing but the waiting rows, and labels with ids are learned once. Examples without an
    id get one, for the same reason. Threads may share a client; each has its own connection, which
    `close` and the end of a ``with`` block close.

    Parameters
    ----------
    url : str
        The address of the service.
    token : str, optional
        By default the environment variable BUDGETRON_TOKEN, if it is set.
    model : str, default="default"
        The name of the model.
    timeout : float, default=30
        Seconds to wait for an answer.
    retries : int, default=5
        How often a request is sent again, with longer and longer pauses, about 6 seconds in total.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        model: str = "default",
        timeout: float = 30.0,
        retries: int = 5,
    ) -> None:
        address = urlsplit(url if "://" in url else f"http://{url}")
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"url must be like http://127.0.0.1:8000; got {url!r}")
        self._https, self._host, self._port = address.scheme == "https", address.hostname, address.port
        self._base = address.path.rstrip("/")
        self._token = os.environ.get("BUDGETRON_TOKEN") if token is None else token
        self.model, self._timeout, self._retries = model, timeout, retries
        self._local = threading.local()

    def predict(
        self,
        rows: Row | Sequence[Row],
        *,
        keep: bool = True,
        durable: bool = False,
        sets: bool = False,
        intervals: bool = False,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Predict one row, or several.

        Parameters
        ----------
        rows : dict or list of dicts
            Values by column name.
        keep : bool, default=True
            Whether the rows wait for their labels. Otherwise they get no ids.
        durable : bool, default=False
            Whether to return only when the waiting rows are on the disk of the service.
        sets : bool, default=False
            Whether to return sets of labels, too, of a model that has a coverage.
        intervals : bool, default=False
            Whether to return intervals, too, of a model that predicts numbers and has intervals.

        Returns
        -------
        dict or list of dicts
            For each row ``id``, ``prediction``, and ``round``, the number of rows that the model had learned.
            Models of classes add ``probabilities`` (by label, or None), and ``set`` if sets were asked for.
            Models of numbers add ``interval`` if intervals were asked for: its ends, None for an end at
            infinity, or an empty list for the empty interval.
        """
        single = isinstance(rows, Mapping)
        sent = {"rows": [rows] if single else list(rows), "keep": keep, "durable": durable}
        sent |= {"sets": True} if sets else {}
        sent |= {"intervals": True} if intervals else {}
        answer = self._post("predict", sent)
        found: list[dict[str, Any]] = [p | {"round": answer["round"]} for p in answer["predictions"]]
        return found[0] if single else found

    def learn(
        self,
        labels: Mapping[str, Label] | Iterable[tuple[Row, Label]],
        *,
        ids: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Learn labels: by the ids of predicted rows, or with their rows.

        Parameters
        ----------
        labels : dict of id to label, or list of (row, label)
        ids : list of str, optional
            An id for each (row, label), by default random. An example whose id was learned before is not
            learned again.

        Returns
        -------
        dict
            ``learned`` (how many), ``repeated`` (ids that were learned before), ``rejected`` and ``round``.
            When it returns, the labels are on the disk of the service, and are learned.
        """
        if isinstance(labels, Mapping):
            examples: list[dict[str, Any]] = [{"id": id, "label": label} for id, label in labels.items()]
        else:
            pairs, stem = list(labels), os.urandom(12).hex()
            names = [f"{stem}.{i}" for i in range(len(pairs))] if ids is None else ids
            examples = [
                {"id": id, "row": row, "label": label} for id, (row, label) in zip(names, pairs, strict=True)
            ]
        return self._post("learn", {"examples": examples})

    def create(
        self,
        columns: Mapping[str, str | Sequence[str]],
        classes: Sequence[Label] | None = None,
        *,
        task: str = "classification",
        learner: str = "budget",
        memory: str | None = None,
        coverage: float | None = None,
    ) -> dict[str, Any]:
        """Create the model of this name.

        Parameters
        ----------
        columns : dict
            For each column its kind ("number", "category", "text" or "time"), or the list of its levels.
        classes : list, optional
            All labels; of a model of classes.
        task : {"classification", "regression"}, default="classification"
            Whether labels are classes or numbers.
        learner : str, default="budget"
            As on the command line, for example "forgetron:budget=100".
        memory : str, optional
            The memory limit of the learner "budget", as "4MB".
        coverage : float, optional
            With it, the model also predicts sets of labels, or intervals, that contain the label in this
            share of the rows.

        Returns
        -------
        dict
            What `show` returns.
        """
        sent = {
            "name": self.model,
            "learner": learner,
            "memory": memory,
            "columns": columns,
            "task": task,
            "classes": classes,
            "coverage": coverage,
        }
        body = _to_json(sent)
        found: dict[str, Any] = json.loads(self._request("POST", f"{self._base}/models", body))
        return found

    def show(self) -> dict[str, Any]:
        """Return all about the model: rounds, errors, memory, waiting rows, experts."""
        found: dict[str, Any] = json.loads(self._request("GET", self._path()))
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, for `budgetron.load` and `budgetron predict`."""
        data = self._request("GET", self._path("file"))
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            temporary.write_bytes(data)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _path(self, *parts: str) -> str:
        return "/".join([self._base, "models", quote(self.model, safe=""), *parts])

    def _post(self, action: str, value: object) -> dict[str, Any]:
        body = _to_json(value)
        found: dict[str, Any] = json.loads(self._request("POST", self._path(action), body))
        return found

    def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        pause, error = 0.2, ServiceError(0, {})
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(pause)
                pause *= 2
            try:
                status, answer = self._send(method, path, body)
            except (OSError, http.client.HTTPException) as failure:
                self.close()
                error = ServiceError(0, {"detail": f"the service does not answer: {failure!r}"})
                continue
            if status < 400:
                return answer
            error = ServiceError(status, _problem(answer))
            if status not in BUSY:
                break
        raise error

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._https else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port, timeout=self._timeout)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()


def _to_json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, default=_plain).encode()


def _plain(value: Any) -> Any:
    """Return a number of NumPy, for example from a data frame, as one of Python."""
    if callable(getattr(value, "item", None)) and not getattr(value, "shape", ()):
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r:.80} cannot be sent; give numbers, text, bool or None")


def _problem(answer: bytes) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        return {"detail": answer[:200].decode("utf-8", "replace")}
    return found if isinstance(found, dict) else {}
