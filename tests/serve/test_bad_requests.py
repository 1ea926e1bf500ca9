"""Bad requests get a clear answer, and change nothing."""

import gzip
import json
import socket
import time

import pytest
from running import CLASSES, COLUMNS, example, new_model, running

from budgetron import files
from budgetron.serve._waiting import Limits

GOOD = {"a": 1.0, "b": 2.0, "colour": "red"}
MODEL = {"name": "n", "columns": COLUMNS, "classes": CLASSES}


def predict(*rows, **members):
    return "POST", "/models/m/predict", {"rows": list(rows)} | members


def learn(*examples, **members):
    return "POST", "/models/m/learn", {"examples": list(examples)} | members


def raw(body, path="/models/m/predict"):
    return "POST", path, body


def new(**members):
    return "POST", "/models", MODEL | members


# Request, status, kind of the problem, and further members of the document.
BAD = {
    "no JSON": (raw(b"{rows"), 400, "bad-json", {}),
    "JSON that ends early": (raw(b'{"rows": [{"a": 1'), 400, "bad-json", {}),
    "an empty body": (raw(b""), 400, "bad-json", {}),
    "not UTF-8": (raw(b'{"rows": [{"colour": "\xff"}]}'), 400, "bad-json", {}),
    "a list": (raw(b"[1, 2]"), 400, "bad-json", {}),
    "nested deeply": (raw(b'{"rows": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), 400, "bad-json", {}),
    "a number of many digits": (raw(b'{"rows": [{"a": ' + b"9" * 5000 + b"}]}"), 400, "bad-json", {}),
    "NaN": (raw(b'{"rows": [{"a": NaN}]}'), 400, "bad-json", {}),
    "no rows": (("POST", "/models/m/predict", {}), 422, "bad-request", {}),
    "an empty list": (predict(), 422, "bad-request", {}),
    "rows as an object": (raw(b'{"rows": {"a": 1}}'), 422, "bad-request", {}),
    "too many rows": (predict(*[GOOD] * 101), 413, "too-many-rows", {}),
    "an unknown member": (predict(GOOD, kepe=True), 422, "unknown-member", {}),
    "a flag as text": (predict(GOOD, keep="yes"), 422, "bad-request", {}),
    "keep as null": (predict(GOOD, keep=None), 422, "bad-request", {}),
    "text after the JSON": (raw(b'{"rows": [{"a": 1}]} {}'), 400, "bad-json", {}),
    "a byte order mark": (raw(b'\xef\xbb\xbf{"rows": [{"a": 1}]}'), 400, "bad-json", {}),
    "the column is written differently": (predict({"A": 1}), 422, "unknown-column", {"column": "A"}),
    "a very long name of a column": (predict({"x" * 100_000: 1}), 422, "unknown-column", {"row": 0}),
    "a very long member": (raw(json.dumps({"x" * 100_000: 1}).encode()), 422, "unknown-member", {}),
    "a number that is infinite when parsed": (
        raw(b'{"rows": [{"a": 1e400}]}'),
        422,
        "bad-row",
        {"row": 0, "column": "a"},
    ),
    "an object for a value": (predict(GOOD | {"a": {"b": 1}}), 422, "bad-row", {"column": "a"}),
    "a row as a list": (predict(GOOD, [1, 2]), 422, "bad-row", {"row": 1}),
    "an unknown column": (
        predict(GOOD, GOOD, GOOD | {"d": 1}),
        422,
        "unknown-column",
        {"row": 2, "column": "d"},
    ),
    "text for a number": (predict(GOOD, GOOD | {"b": "much"}), 422, "bad-row", {"row": 1, "column": "b"}),
    "true for a number": (predict(GOOD | {"a": True}), 422, "bad-row", {"row": 0, "column": "a"}),
    "a list for a value": (predict(GOOD | {"a": [1]}), 422, "bad-row", {"row": 0, "column": "a"}),
    "infinity": (raw(b'{"rows": [{"a": 1e999}]}'), 422, "bad-row", {"row": 0, "column": "a"}),
    "a huge number": (predict(GOOD | {"a": 10**200}), 422, "bad-row", {"row": 0, "column": "a"}),
    "half of a surrogate pair": (
        raw(b'{"rows": [{"colour": "\\ud800"}]}'),
        422,
        "bad-row",
        {"column": "colour"},
    ),
    "an example without a label": (learn({"row": GOOD}), 422, "bad-example", {"row": 0}),
    "an example without a row": (learn({"label": "no"}), 422, "bad-example", {"row": 0}),
    "an example as text": (learn("no"), 422, "bad-example", {"row": 0}),
    "an unknown label": (
        learn({"row": GOOD, "label": "no"}, {"row": GOOD, "label": "maybe"}),
        422,
        "unknown-label",
        {"row": 1},
    ),
    "no label": (learn({"row": GOOD, "label": None}), 422, "unknown-label", {"row": 0}),
    "a bad row among good ones": (
        learn({"row": GOOD, "label": "no"}, {"row": {"a": "x"}, "label": "no"}),
        422,
        "bad-row",
        {"row": 1, "column": "a"},
    ),
    "an unknown id": (
        learn({"row": GOOD, "label": "no"}, {"id": "x", "label": "no"}),
        404,
        "unknown-id",
        {"row": 1},
    ),
    "a long id": (learn({"id": "x" * 201, "label": "no"}), 422, "bad-id", {"row": 0}),
    "half of a surrogate pair as id": (
        raw(b'{"examples": [{"id": "\\ud800", "label": "no"}]}', "/models/m/learn"),
        422,
        "bad-id",
        {"row": 0},
    ),
    "a number as id": (learn({"id": 5, "label": "no"}), 422, "bad-id", {"row": 0}),
    "an unknown model": (("POST", "/models/x/predict", {"rows": [GOOD]}), 404, "unknown-model", {}),
    "a path to a parent": (("GET", "/models/..%2f..%2fetc%2fpasswd", None), 404, "not-found", {}),
    "another path to a parent": (("GET", "/models/../log.sqlite", None), 404, "not-found", {}),
    "a file of the folder": (("GET", "/models/m/log.sqlite", None), 404, "not-found", {}),
    "a wrong method": (("PUT", "/models/m", {}), 405, "wrong-method", {}),
    "a wrong method of predict": (("GET", "/models/m/predict", None), 405, "wrong-method", {}),
    "a name that is taken": (new(name="M"), 409, "name-taken", {}),
    "a name with a path": (new(name="../x"), 422, "bad-name", {}),
    "a model without columns": (
        ("POST", "/models", {"name": "n", "classes": CLASSES}),
        422,
        "bad-definition",
        {},
    ),
    "an unknown kind of column": (new(columns={"a": "colour"}), 422, "bad-definition", {}),
    "classes between whole numbers": (new(classes=[0.5, 1.5]), 422, "bad-definition", {}),
    "equal classes": (new(classes=[1, "1"]), 422, "bad-definition", {}),
    "one class": (new(classes=["no"]), 422, "bad-definition", {}),
    "an unknown learner": (new(learner="forgetful"), 422, "bad-definition", {}),
    "a bad parameter": (new(learner="forgetron:budget=-1"), 422, "bad-definition", {}),
    "memory of another learner": (new(learner="arow", memory="1MB"), 422, "bad-definition", {}),
    "too little memory": (new(learner="budget", memory="1kB"), 422, "bad-definition", {}),
    "too much memory": (new(learner="secondorder:budget=10000000"), 422, "bad-definition", {}),
    "code as a parameter": (new(learner="forgetron:kernel=__import__('os')"), 422, "bad-definition", {}),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with running(folder, {"m": new_model()}, max_rows=100, max_body=1 << 20, request_seconds=1.5) as found:
        found.learn(*range(30))
        yield found


def state(service):
    """Return everything that a request could change."""
    entry = service.service.entries["m"]
    log = service.service.log._db.total_changes
    return (
        files.to_bytes(entry.model.model),
        entry.model.statistics.labels,
        entry.waiting.next_row,
        log,
        sorted(service.service.entries),
    )


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request(service, name):
    (method, path, body), status, kind, members = BAD[name]
    before = state(service)
    found, headers, problem = service.request(method, path, body)
    assert (found, problem.get("type")) == (status, f"urn:budgetron:problem:{kind}"), problem
    assert headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert members.items() <= problem.items()
    assert 10 < len(problem["detail"]) < 700
    assert len(json.dumps(problem)) < 2500
    assert state(service) == before


def test_a_body_of_another_type(service):
    before = state(service)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        found = service.request("POST", "/models/m/predict", {"rows": [GOOD]}, Content_Type=kind)
        assert found[0] == 415
    assert state(service) == before
    body = {"rows": [GOOD], "keep": False}
    assert service.request("POST", "/models/m/predict", body, Content_Type="application/json; x=y")[0] == 200


def test_a_compressed_body(service):
    before = state(service)
    body = gzip.compress(json.dumps({"rows": [GOOD]}).encode())
    status, _, problem = service.request("POST", "/models/m/predict", body, Content_Encoding="gzip")
    assert (status, problem["type"]) == (415, "urn:budgetron:problem:encoded")
    assert state(service) == before


def test_an_expired_id(tmp_path):
    limits = Limits(rows=5, bytes=1 << 20, seconds=0.2)
    with running(tmp_path, {"m": new_model()}, waiting=limits) as service:
        ids = [p["id"] for p in service.predict(1, 2)[2]["predictions"]]
        waiting, log = service.service.entries["m"].waiting, service.service.log._db

        def all_expired():
            stored = log.execute("SELECT COUNT(*) FROM waiting").fetchone()[0]
            return waiting.expired == 2 and not waiting.changed and not stored

        stop = time.monotonic() + 20
        while not all_expired():
            assert time.monotonic() < stop
            time.sleep(0.05)
        before = state(service)
        examples = [{"row": GOOD, "label": "no"}, *({"id": id, "label": "no"} for id in ids)]
        status, _, problem = service.request("POST", "/models/m/learn", {"examples": examples})
        assert (status, problem["type"]) == (410, "urn:budgetron:problem:expired-id")
        assert (problem["row"], problem["id"]) == (1, ids[0])
        assert state(service) == before


HEAD = "POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_of_100_megabytes_is_not_read(service):
    before = state(service)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(f"{HEAD}Content-Length: {100 * 2**20}\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
    with socket.create_connection(("127.0.0.1", service.port)) as connection:  # of unknown length
        connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with pytest.raises(OSError):  # noqa: PT011 - the service closes the connection
            connection.sendall(chunk * 1600)
    assert state(service) == before


@pytest.mark.parametrize(
    "sent",
    ["", "POST /mod", "POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"],
)
def test_a_slow_client_is_disconnected(service, sent):
    before = state(service)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.settimeout(60)
        connection.sendall(sent.encode())
        answer = b""
        while part := connection.recv(4096):
            answer += part
    if "Content-Length" not in sent:  # a complete head without the right type is answered at once
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"urn:budgetron:problem:too-slow" in answer
    assert state(service) == before


def test_a_client_whose_second_request_is_slow_is_disconnected(service):
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.settimeout(60)
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health")
        answer = b""
        while part := connection.recv(4096):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"HTTP/1.1 408 ") == 1


@pytest.mark.parametrize(
    "head",
    [
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
        "GET /",
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n0\r\nX: ",
    ],
    ids=["a header", "headers", "the address", "a trailer"],
)
def test_an_endless_head_is_not_read(tmp_path, head):
    more = b"X: y\r\n" * 10_000 if head.endswith("\r\n") else b"y" * 60_000
    with (
        running(tmp_path, {"m": new_model()}, max_body=100_000) as service,
        socket.create_connection(("127.0.0.1", service.port)) as connection,
    ):
        connection.settimeout(20)  # less than the service gives a request
        connection.sendall(head.encode())
        with pytest.raises(ConnectionError):  # the service closes the connection
            connection.sendall(more * 1000)
        assert service.predict(1)[0] == 200


def test_a_request_may_follow_a_large_one_at_once(service):
    """The head of the second request is in the same part of data as a body that is larger than a head."""
    body = b'{"rows": [{"a": 1}]' + b" " * 200_000 + b"}"
    first = f"{HEAD}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(first + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        time.sleep(0.5)
        connection.sendall(b"Connection: close\r\n\r\n")
        answer = b""
        while part := connection.recv(4096):
            answer += part
    assert answer.startswith(b"HTTP/1.1 422 ")  # there are no examples
    assert answer.endswith(b'{"status":"ok"}')


def test_requests_that_are_no_http(service):
    for sent in (
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            connection.settimeout(60)
            connection.sendall(sent)
            assert b" 400 " in connection.recv(4096).partition(b"\r\n")[0]
    assert service.request("GET", "/healthz")[0] == 200


def test_a_foreign_host_name_is_refused_without_a_token(service):
    assert service.request("GET", "/models", Host="evil.example")[0] == 421
    assert service.request("GET", "/models", Host="localhost:123")[0] == 200


def test_more_rows_than_may_wait(tmp_path):
    with running(tmp_path, {"m": new_model()}, waiting=Limits(rows=5, bytes=1 << 20)) as service:
        rows = [example(n)[0] for n in range(6)]
        status, _, problem = service.request("POST", "/models/m/predict", {"rows": rows})
        assert (status, problem["type"]) == (413, "urn:budgetron:problem:too-many-rows")
        assert service.request("POST", "/models/m/predict", {"rows": rows, "keep": False})[0] == 200
        assert service.request("POST", "/models/m/predict", {"rows": rows[:5]})[0] == 200
        assert service.service.entries["m"].waiting.rows == 5


def test_an_error_of_the_service_is_a_problem_document(tmp_path, monkeypatch, caplog):
    with running(tmp_path, {"m": new_model()}) as service:
        monkeypatch.setattr(service.service.entries["m"].model, "predict", lambda rows, sets: 1 / 0)
        status, _, problem = service.predict(1)
        assert (status, problem["type"]) == (500, "urn:budgetron:problem:internal")
        assert "ZeroDivisionError" in caplog.text
        assert service.learn(1)[0] == 200


def test_a_token(tmp_path):
    with running(tmp_path, {"m": new_model()}, token="correct-horse") as service:
        before = state(service)
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic correct-horse"}):
            for path in ("/models", "/models/m", "/models/m/file", "/metrics", "/openapi.json", "/events"):
                status, found, problem = service.request("GET", path, **headers)
                assert (status, problem["type"]) == (401, "urn:budgetron:problem:no-token")
                assert found["www-authenticate"] == "Bearer"
            assert service.request("POST", "/models/m/predict", {"rows": [GOOD]}, **headers)[0] == 401
            assert service.request("POST", "/models", MODEL, **headers)[0] == 401
            assert service.request("DELETE", "/models/m", **headers)[0] == 401
        assert state(service) == before
        assert service.request("GET", "/models", Authorization="Bearer correct-horse")[0] == 200
        assert service.request("GET", "/models", Cookie="budgetron-token=correct-horse")[0] == 200
        assert service.request("GET", "/models", Cookie="budgetron-token=other")[0] == 401
        assert service.request("GET", "/healthz")[0] == 200
        assert service.request("GET", "/", Accept="text/html")[1]["location"] == "/login"
        assert b"Token" in service.request("GET", "/login")[2]
        form = {"Content_Type": "application/x-www-form-urlencoded"}
        assert service.request("POST", "/login", b"token=wrong", **form)[0] == 401
        status, headers, _ = service.request("POST", "/login", b"token=correct-horse", **form)
        assert (status, headers["location"]) == (303, "/")
        assert "HttpOnly" in headers["set-cookie"]
        assert "samesite=strict" in headers["set-cookie"].lower()


def test_models_are_created_and_deleted(tmp_path):
    with running(tmp_path) as service:
        status, headers, found = service.request(
            "POST", "/models", MODEL | {"learner": "budget", "memory": "500kB"}
        )
        assert (status, headers["location"], found["kind"]) == (201, "/models/n", "BudgetClassifier")
        assert service.learn(1, 2, 3, name="n")[0] == 200
        assert [m["round"] for m in service.request("GET", "/models")[2]["models"]] == [3]
        id = service.predict(1, name="n")[2]["predictions"][0]["id"]
        assert service.request("DELETE", "/models/n")[0] == 204
        assert service.request("GET", "/models/n")[0] == 404
        assert service.request("DELETE", "/models/n")[0] == 404
        assert service.request("POST", "/models", MODEL)[0] == 201
        # The new model of the same name does not know the ids of the old one.
        found = service.request("POST", "/models/n/learn", {"examples": [{"id": id, "label": "no"}]})
        assert found[0] == 404
    with running(tmp_path) as service:
        assert [m["round"] for m in service.request("GET", "/models")[2]["models"]] == [0]


def test_the_limit_of_memory_includes_the_waiting_rows(tmp_path):
    limits = Limits(rows=1000, bytes=200_000)
    with running(tmp_path, {"m": new_model("budget:memory=400kB")}, waiting=limits) as service:
        for k in range(0, 3000, 60):
            service.predict(*range(k, k + 60))
            service.learn(*range(k, k + 60))
            memory = service.request("GET", "/models/m")[2]["memory"]
            assert memory["waiting"] <= 200_000
            assert memory["total"] <= memory["limit"] <= 200_000 + 400 * 1024 + 100_000
        shown = service.request("GET", "/models/m")[2]
        assert shown["waiting"]["displaced"] > 0
        assert shown["certificate"]["holds"] is True
        assert sum(expert["share"] for expert in shown["experts"]) == pytest.approx(1.0)


def test_the_description_says_what_is_sent(service):
    """Every problem and every answer of these tests is one that the description has."""
    description = service.request("GET", "/openapi.json")[2]
    for (method, path, _), status, kind, _ in BAD.values():
        template = path.replace("/m/", "/{name}/").replace("/x/", "/{name}/")
        if template in description["paths"] and kind != "wrong-method":
            assert str(status) in description["paths"][template][method.lower()]["responses"]
    assert json.loads(json.dumps(description)) == description
