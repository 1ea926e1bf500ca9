"""Requests and folders that are well-formed but malicious."""

import asyncio
import http.client
import json
import select
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from running import CLASSES, COLUMNS, Running, example, new_model, running

from budgetron.serve import Problem, open_service
from budgetron.serve._bodies import Bodies

HEAD = "POST /models/m/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
SENT = HEAD.encode()


def wait_for(condition):
    """Return whether a condition becomes true within 20 seconds."""
    stop = time.monotonic() + 20
    while time.monotonic() < stop:
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(tmp_path_factory.mktemp("service"), {"m": new_model()}) as found:
        yield found


def learn(service, *examples):
    return service.request("POST", "/models/m/learn", {"examples": list(examples)})


def labelled(number, **members):
    row, label = example(number)
    return {"row": row, "label": label} | members


@pytest.mark.parametrize("digits", ["ffffffff", "f" * 15, "f" * 40, "0" * 100 + "1" * 60])
def test_an_id_that_was_never_given_takes_no_later_row(service, digits):
    """A client may guess ids that are not assigned yet. The numbers of rows must also fit in the log."""
    known = service.predict(1)[2]["predictions"][0]["id"]
    uid = known.partition("-")[0]
    guessed = f"{uid}-{int(known.partition('-')[2], 16) + 5:x}"
    for id in (f"{uid}-{digits}", guessed):
        assert learn(service, {"id": id, "label": "no"})[0] in (404, 410)
        assert learn(service, labelled(3, id=id))[2]["learned"] == 1
        assert learn(service, labelled(3, id=id))[2]["repeated"] == [id]
    later = [service.predict(k)[2]["predictions"][0]["id"] for k in range(8)]
    assert guessed in later
    status, _, found = learn(service, *({"id": id, "label": "no"} for id in later))
    assert (status, found["learned"]) == (200, 8)


IDS = [
    "a",
    "\u200b",
    "é",
    "e\u0301",
    "\ufeffa",
    "\uffff",
    "😀",
    "-",
    "'; --",
    "%00",
    "\x7f\x01\n",
    '"',
    "\\u0061",
]


def test_a_guessed_id_is_learned_once_also_after_a_restart(tmp_path):
    """After a restart, the numbers of the last run count as assigned."""
    with running(tmp_path, {"m": new_model()}) as service:
        known = service.predict(1)[2]["predictions"][0]["id"]
        guessed = f"{known.partition('-')[0]}-{int(known.partition('-')[2], 16) + 5:x}"
        assert learn(service, labelled(3, id=guessed))[2]["learned"] == 1
    with running(tmp_path) as service:
        status, _, found = learn(service, labelled(3, id=guessed))
        assert (status, found["learned"], found["repeated"], found["round"]) == (200, 0, [guessed], 1)


def test_ids_are_compared_exactly(service):
    for number, id in enumerate(IDS):
        status, _, found = learn(service, labelled(number, id=id))
        assert (status, found["learned"], found["repeated"]) == (200, 1, []), id
    for number, id in enumerate(IDS):
        assert learn(service, labelled(number, id=id))[2]["repeated"] == [id]
    found = learn(service, *(labelled(5, id=id) for id in IDS))[2]
    assert (found["learned"], found["repeated"]) == (0, IDS)


def test_an_id_with_a_nul_character_is_refused(service):
    """SQLite would compare only what is before it."""
    assert learn(service, labelled(1, id="nul"))[0] == 200
    for id in ("nul\0", "nul\0x", "\0"):
        status, _, problem = learn(service, labelled(1), labelled(2, id=id))
        assert (status, problem["type"], problem["row"]) == (422, "urn:budgetron:problem:bad-id", 1)


def test_a_form_with_too_many_fields(service):
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    body = b"model=m&" + b"&".join(b"c:a=%d" % i for i in range(2000))
    assert service.request("POST", "/try", body, **kind)[0] == 413
    for body in (
        b"model=m&c:a=%00%ff",
        b"model=m&" + b"c:" * 3000,
        b"\xff" * 100,
        b"",
        b"model=m&model=../m",
    ):
        assert service.request("POST", "/try", body, **kind)[0] < 500
    assert service.request("POST", "/try", b"model=m&c:a=" + b"1" * (1 << 17), **kind)[0] == 413


@pytest.mark.parametrize(
    "path",
    [
        "/models/%00/predict",
        "/models/%ff%fe/learn",
        "//models//m//predict",
        "/models/m/predict/",
        "/models/m%2Fpredict/x",
        "/models/" + "m" * 30_000 + "/predict",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/models/m/predict;x",
        "/models/.%2e/file",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "TRACE"])
def test_strange_addresses_are_client_errors(service, method, path):
    body = {"rows": [example(1)[0]]} if method == "POST" else None
    assert 400 <= service.request(method, path, body)[0] < 500


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        SENT + b"Content-Length: -5\r\n\r\n",
        SENT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        SENT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"GET /models HTTP/1.0\r\n\r\n",
        b"GET /models HTTP/1.1\r\nHost: a\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        SENT + b"Content-Length: 99999999999999999999999\r\n\r\n",
    ],
)
def test_strange_heads(service, head):
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.settimeout(5)
        connection.sendall(head)
        answer = connection.recv(4096)
    assert b" 500 " not in answer.partition(b"\r\n")[0]
    assert answer.startswith(b"HTTP/1.1 ")
    assert service.request("GET", "/healthz")[0] == 200


def test_a_copied_model_file_is_refused(tmp_path):
    with running(tmp_path, {"m": new_model()}) as service:
        service.learn(1, 2, 3)
    shutil.copy(tmp_path / "models" / "m.budgetron", tmp_path / "models" / "copy.budgetron")
    with pytest.raises(ValueError, match="is a copy of"):
        open_service(tmp_path)


@pytest.mark.parametrize("name", ["a b", "ü", '"', "x" * 65, "-a", ".hidden"])
def test_a_model_file_with_another_name_is_refused(tmp_path, name):
    with running(tmp_path, {"m": new_model()}):
        pass
    (tmp_path / "models" / "m.budgetron").rename(tmp_path / "models" / f"{name}.budgetron")
    with pytest.raises(ValueError, match="name"):
        open_service(tmp_path)


def test_snapshots_go_on_if_their_folder_was_removed(tmp_path):
    with running(tmp_path, {"m": new_model()}) as service:
        service.learn(1, 2, 3)
        shutil.rmtree(tmp_path / "models")
        assert service.learn(4)[2]["round"] == 4
    with running(tmp_path) as service:
        assert service.service.entries["m"].model.rounds == 4


def test_all_bodies_together_are_limited():
    """Clients that send most of a large body, and wait, must not use up the memory; small requests go on."""

    async def body_of(size, end=True):
        for _ in range(size // 50_000):
            yield {"type": "http.request", "body": b" " * 50_000, "more_body": True}
        yield (
            {"type": "http.request", "body": b"", "more_body": False} if end else {"type": "http.disconnect"}
        )

    async def check():
        bodies = Bodies(1_000_000)
        with pytest.raises(Problem, match="at most"):
            await bodies.read({}, body_of(1_050_000).__anext__)
        for _ in range(4):
            assert len(await bodies.read({}, body_of(1_000_000).__anext__)) == 1_000_000
        for size in (500_000, 1_000_000):
            with pytest.raises(Problem, match="too many large requests") as refused:
                await bodies.read({}, body_of(size).__anext__)
            assert refused.value.status == 503
        assert len(await bodies.read({}, body_of(50_000).__anext__)) == 50_000
        bodies.release(50_000)
        for size in (50_000, 200_000):  # clients that give up
            with pytest.raises(Problem, match="closed"):
                await bodies.read({}, body_of(size, end=False).__anext__)
        for _ in range(3):
            bodies.release(1_000_000)
            assert len(await bodies.read({}, body_of(1_000_000).__anext__)) == 1_000_000
        with pytest.raises(Problem, match="too many large requests"):
            await bodies.read({}, body_of(500_000).__anext__)

    asyncio.run(check())


def test_fewer_rows_of_a_model_with_many_classes(tmp_path):
    """A small request must not ask for more probabilities than fit in memory."""
    many = new_model(classes=list(range(1000)))
    with running(tmp_path, {"many": many, "m": new_model()}) as service:
        rows = [{"a": 1}] * 1001
        status, _, problem = service.request("POST", "/models/many/predict", {"rows": rows, "keep": False})
        assert (status, problem["type"]) == (413, "urn:budgetron:problem:too-many-rows")
        assert "send at most 1,000" in problem["detail"]
        for name, sent in (("many", rows[1:]), ("m", rows * 9)):
            body = {"rows": sent, "keep": False}
            assert service.request("POST", f"/models/{name}/predict", body)[0] == 200


def test_definitions_count_as_bodies(tmp_path):
    """Clients that send most of a definition, and wait, must not use up the memory."""
    with running(tmp_path, {"m": new_model()}, max_body=1 << 20) as service, ExitStack() as open_:
        head = HEAD.replace("/models/m/predict", "/models") + f"Content-Length: {1 << 20}\r\n\r\n"
        clients = [
            open_.enter_context(socket.create_connection(("127.0.0.1", service.port))) for _ in range(8)
        ]
        for client in clients:
            client.sendall(head.encode() + b" " * ((1 << 20) - 10))
        assert wait_for(lambda: len(select.select(clients, [], [], 0)[0]) == 4)
        for client in select.select(clients, [], [], 0)[0]:
            assert client.recv(4096).startswith(b"HTTP/1.1 503 ")
        body = {"name": "n", "columns": COLUMNS, "classes": CLASSES, "learner": "arow"}
        assert service.request("POST", "/models", body)[0] == 201


def test_clients_that_give_up_leave_nothing(tmp_path):
    with running(tmp_path, {"m": new_model()}, max_body=1 << 20) as service:
        body = b'{"rows": [' + b" " * 1_000_000 + b'{"a": 1}], "keep": false}'
        for stop in (10, 500_000, len(body)) * 10:
            with socket.create_connection(("127.0.0.1", service.port)) as connection:
                connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body[:stop])
        assert wait_for(lambda: service.request("POST", "/models/m/predict", body)[0] == 200)
        for _ in range(5):
            assert service.request("POST", "/models/m/predict", body)[0] == 200


def test_too_many_connections(tmp_path):
    with running(tmp_path, {"m": new_model()}, max_connections=20) as service, ExitStack() as open_:
        first = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        open_.callback(first.close)
        first.request("GET", "/healthz")
        assert first.getresponse().read()
        others = [
            open_.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=20))
            for _ in range(40)
        ]
        answers = [connection.recv(4096) for connection in others[20:]]
        assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
        assert b"too many connections" in answers[0]
        first.request("GET", "/healthz")  # those that are connected are served
        assert first.getresponse().status == 200
        for connection in others:
            connection.close()
        assert wait_for(lambda: service.request("GET", "/healthz")[0] == 200)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_the_limit_of_open_files_leaves_some_for_the_log(tmp_path):
    """The service refuses connections in time; without files left, it could not even answer old ones."""
    code = """
import resource, sys
from budgetron.serve import Settings, open_service, run
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
service = open_service(sys.argv[1], Settings(snapshot_rows=1))
run(service, port=0, started=lambda port: print(port, flush=True))
"""
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)

    def written():
        return (tmp_path / "models" / "m.budgetron").stat().st_mtime_ns

    with process, ExitStack() as open_:
        open_.callback(process.terminate)
        service = Running(None, int(process.stdout.readline()))
        first = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
        open_.callback(first.close)
        body = {"name": "m", "columns": COLUMNS, "classes": CLASSES, "learner": "secondorder:budget=20"}
        assert service.request("POST", "/models", body)[0] == 201
        created = written()
        first.request("GET", "/healthz")
        assert first.getresponse().read()
        for _ in range(800):
            open_.enter_context(socket.create_connection(("127.0.0.1", service.port)))
        examples = {"examples": [labelled(k) for k in range(5)]}
        for _ in range(2):
            first.request(
                "POST", "/models/m/learn", json.dumps(examples), {"Content-Type": "application/json"}
            )
            assert first.getresponse().read()
        assert wait_for(lambda: written() > created)
        first.request("GET", "/readyz")  # snapshots can be written
        response = first.getresponse()
        assert (response.status, response.read()) == (200, b'{"status":"ready"}')
    assert process.returncode == 0
