"""The service as a program: the command line, the client, signals, many requests at once."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from running import example, new_model, running

import budgetron
from budgetron import files
from budgetron.client import Client, ServiceError
from budgetron.serve._definition import from_file
from budgetron.serve._model import LEAST_BLOCK

ROOT = Path(__file__).parent.parent.parent


def table(path, n=300):
    lines = ["a,b,colour,when,answer"]
    for number in range(n):
        row, label = example(number)
        when = f"2024-{1 + number % 12:02d}-{1 + number % 28:02d} {number % 24:02d}:30"
        lines.append(f"{row['a']},{row['b'] if number % 7 else ''},{row['colour']},{when},{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def command(*arguments):
    return [sys.executable, "-m", "budgetron", *map(str, arguments)]


class Process:
    """The command `budgetron serve`."""

    def __init__(self, folder, *options, **environment):
        self.process = subprocess.Popen(
            command("serve", folder, "--port", 0, *options),
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"COLUMNS": "200"} | environment,
        )
        self.messages = []
        for line in self.process.stderr:
            self.messages.append(line)
            if "http://" in line:
                self.url = line.split(" at ")[1].strip()
                return
        raise AssertionError("".join(self.messages))

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        rest = self.process.stderr.read()
        self.process.stderr.close()
        return self.process.wait(60), rest


def test_rows_are_read_as_those_of_a_file(tmp_path):
    """The service predicts what `budgetron predict` predicts, for every kind of column."""
    data = table(tmp_path / "rows.csv")
    model = tmp_path / "m.budgetron"
    subprocess.run(
        command("run", data, "-t", "answer", "-l", "arow:loss=logistic", "--save", model), check=True
    )
    out = subprocess.run(
        command("predict", model, data, "--proba", "--json"), check=True, capture_output=True, text=True
    ).stdout
    wanted = [json.loads(line) for line in out.splitlines()]
    names, *lines = [line.split(",") for line in data.read_text().splitlines()]
    rows = [dict(zip(names[:-1], line, strict=False)) for line in lines]
    for row in rows[::2]:  # numbers as numbers, and missing values as null
        row["a"], row["b"] = float(row["a"]), float(row["b"]) if row["b"] else None
    with running(tmp_path / "service", {"m": from_file(model)}) as service, service.client() as client:
        found = client.predict(rows, keep=False)
        assert [p["prediction"] for p in found] == [p["prediction"] for p in wanted]
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours["probabilities"]["yes"] == pytest.approx(theirs["proba_yes"], abs=1e-12)
        client.save(tmp_path / "again.budgetron")
    again = subprocess.run(
        command("predict", tmp_path / "again.budgetron", data, "--proba", "--json"),
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert again == out


def test_learning_is_that_of_the_command_line(tmp_path):
    """A model that continues in the service has the bits of one that continues with `run --from`."""
    data, more = table(tmp_path / "a.csv", 200), tmp_path / "b.csv"
    lines = table(tmp_path / "all.csv", 200 + LEAST_BLOCK).read_text().splitlines()
    more.write_text("\n".join([lines[0], *lines[201:]]) + "\n")
    first, second = tmp_path / "first.budgetron", tmp_path / "second.budgetron"
    subprocess.run(command("run", data, "-t", "answer", "-l", "arow", "--save", first), check=True)
    subprocess.run(command("run", more, "-t", "answer", "--from", first, "--save", second), check=True)
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[201:]]
    with running(tmp_path / "service", {"m": from_file(first)}) as service, service.client() as client:
        client.learn([({k: v for k, v in row.items() if k != "answer"}, row["answer"]) for row in rows])
        model = service.service.entries["m"].model
        assert files.to_bytes(model.model) == files.to_bytes(budgetron.load(second))
        wanted = files.load_extras(second)["encoder"]["running"]
        for name, value in model.encoder.state()["running"].items():
            assert np.array_equal(value, wanted[name], equal_nan=True), name


def test_a_model_of_python(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    budgetron.save(budgetron.linear.AROW().fit(X, y), tmp_path / "m.budgetron")
    with (
        running(tmp_path / "s", {"m": from_file(tmp_path / "m.budgetron")}) as service,
        service.client() as client,
    ):
        found = client.predict([{"x1": a, "x2": b, "x3": c} for a, b, c in X.tolist()])
        assert [p["prediction"] for p in found] == budgetron.load(tmp_path / "m.budgetron").predict(
            X
        ).tolist()
        assert {p["round"] for p in found} == {50}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to stop a process")
def test_the_command_serves_until_a_signal(tmp_path):
    data = table(tmp_path / "rows.csv")
    options = ("--like", data, "-t", "answer", "--learner", "budget", "--memory", "500kB")
    process = Process(tmp_path / "s", *options)
    with Client(process.url) as client:
        assert client.predict(example(0)[0])["prediction"] is None  # nothing was learned yet
        answer = client.learn([example(n) for n in range(40)])
        assert (answer["learned"], answer["round"]) == (40, 40)
        found = client.predict([example(n)[0] for n in range(5)])
        assert {p["prediction"] for p in found} <= {"no", "yes"}
        assert client.learn({p["id"]: "no" for p in found})["learned"] == 5
    code, rest = process.stop()
    assert (code, "Stopped." in rest) == (0, True), rest
    again = Process(tmp_path / "s", *options)
    assert any("continues" in line for line in again.messages)
    with Client(again.url) as client:
        shown = client.show()
        assert (shown["round"], shown["kind"], shown["waiting"]["rows"]) == (45, "BudgetClassifier", 1)
    assert again.stop(signal.SIGINT)[0] in (0, 130)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to stop a process")
def test_signals_do_not_lose_requests(tmp_path):
    """Requests that were accepted before SIGTERM are answered, and their labels are in the snapshot."""
    process = Process(tmp_path / "s", "--like", table(tmp_path / "rows.csv"), "-t", "answer", "-l", "arow")
    answered = []

    def send(start):
        with Client(process.url, retries=0) as client, suppress(ServiceError):
            for n in range(start, start + 1000):
                answered.extend([client.learn([example(n)])["learned"]])

    threads = [threading.Thread(target=send, args=(10_000 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    while len(answered) < 50:
        time.sleep(0.01)
    start = time.monotonic()
    code, _ = process.stop()
    assert (code, time.monotonic() - start < 60) == (0, True)
    for thread in threads:
        thread.join()
    stored = files.load_extras(tmp_path / "s" / "models" / "default.budgetron")["serve"]["statistics"][
        "labels"
    ]
    assert stored >= sum(answered) >= 50
    assert stored <= sum(answered) + len(threads)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to stop a process")
def test_open_connections_do_not_delay_the_end(tmp_path):
    """Live pages, idle connections, requests that never arrive completely, and responses nobody reads."""
    process = Process(tmp_path / "s", "--like", table(tmp_path / "rows.csv"), "-t", "answer", "-l", "arow")
    head = "POST /models/default/learn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    address = ("127.0.0.1", int(process.url.rstrip("/").rpartition(":")[2]))
    with ExitStack() as open_:
        connections = [open_.enter_context(socket.create_connection(address)) for _ in range(4)]
        connections[0].sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connections[1].sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        body = json.dumps({"rows": [{"a": 1}] * 5000, "keep": False})
        predict = head.replace("learn", "predict")
        connections[2].sendall(f"{predict}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        assert connections[0].recv(1)
        with urlopen(f"{process.url}healthz") as answer:  # what was sent before has arrived, too
            assert answer.status == 200
        start = time.monotonic()
        code, rest = process.stop()
        assert time.monotonic() - start < 20
        assert (code, "Stopped." in rest, "Traceback" in rest) == (0, True, False), rest
        connections[1].settimeout(20)
        assert connections[1].recv(4096).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--learner", "arow"), "need --like"),
        (("--coverage", "0.9"), "--coverage needs --like"),
        (("--like", "rows.csv", "-t", "answer", "--coverage", "2"), "coverage"),
        (("--model", "nothing.budgetron"), "No such file"),
        (("--host", "0.0.0.0"), "give a token"),
        (("--port", "99999"), "a port is a number from 0 to 65535"),
        (("--host", "nowhere.invalid"), "give a token"),
        (("--wait-time", "soon"), "--wait-time"),
        (("--wait-memory", "much"), "--wait-memory"),
        (("--wait-memory", "1kB"), "--wait-memory must be at least 64 kB"),
        (("--like", "rows.csv", "-t", "answer", "--name", "../x"), "the name of a model has"),
        (("--like", "rows.csv", "-t", "nothing"), "no column"),
    ],
)
def test_bad_options(tmp_path, options, message):
    table(tmp_path / "rows.csv", 30)
    run = subprocess.run(
        command("serve", "s", *options), cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 2
    assert message in run.stderr


def test_a_port_that_is_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        run = subprocess.run(
            command("serve", "s", "--port", port), cwd=tmp_path, capture_output=True, text=True, timeout=120
        )
    assert run.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {port}: " in run.stderr
    assert "Traceback" not in run.stderr


def test_a_short_token_is_refused(tmp_path):
    run = subprocess.run(
        command("serve", tmp_path, "--host", "0.0.0.0"),
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"BUDGETRON_TOKEN": "short"},
    )
    assert run.returncode == 2
    assert "at least 8 characters" in run.stderr


def test_many_clients_predict_while_others_learn(tmp_path):
    """Every answer belongs to its request, and all labels are learned."""
    with running(tmp_path, {"m": new_model()}) as service:
        errors, labels = [], []

        def predict(start):
            try:
                with service.client() as client:
                    before = -1
                    for n in range(start, start + 60):
                        found = client.predict([example(k)[0] for k in range(n, n + 3)])
                        assert len(found) == 3
                        assert found[0]["round"] >= before
                        before = found[0]["round"]
                        ids = {p["id"]: example(n + i)[1] for i, p in enumerate(found)}
                        assert client.learn(ids)["learned"] == 3
                        labels.append(3)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=predict, args=(1000 * i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        entry = service.service.entries["m"]
        assert entry.model.rounds == sum(labels) == 8 * 60 * 3
        assert entry.waiting.rows == 0
        assert entry.waiting.nbytes == 0
        assert service.service.writer.commits < 8 * 60 + 200  # several requests share a transaction


def test_a_prediction_waits_for_one_block_at_most(tmp_path, monkeypatch):
    """While a long request is learned, predictions see the rounds between."""
    model = new_model()
    play = model._play

    def slow(X, labels):
        time.sleep(0.05)
        return play(X, labels)

    monkeypatch.setattr(model, "_play", slow)
    with running(tmp_path, {"m": model}) as service, service.client() as client:
        client.learn([example(0)])
        thread = threading.Thread(target=lambda: service.learn(*range(1, 1 + 20 * LEAST_BLOCK)))
        thread.start()
        rounds = []
        while thread.is_alive():
            rounds.append(client.predict(example(5)[0], keep=False)["round"])
        thread.join()
        assert len({r for r in rounds if 1 < r < 1 + 20 * LEAST_BLOCK}) >= 3
        assert {(r - 1) % LEAST_BLOCK for r in rounds} == {0}


def test_the_client_sends_again_what_was_not_answered(tmp_path):
    with running(tmp_path, {"m": new_model()}) as service:
        with service.client(retries=2) as client:
            client.predict(example(1)[0])
            client._local.connection.sock.close()  # a connection that was lost
            client._local.connection.sock = None
            assert client.learn([example(1)])["learned"] == 1
            with pytest.raises(ServiceError, match="colour2") as caught:
                client.predict({"colour2": 1})
            assert (caught.value.status, caught.value.problem["column"]) == (422, "colour2")
            with pytest.raises(ValueError, match="not JSON compliant"):
                client.predict({"a": float("nan")})
            with pytest.raises(TypeError, match="cannot be sent"):
                client.predict({"a": np.zeros(3)})
            row = {"a": np.int64(1), "b": np.float32(0.5), "colour": np.str_("red")}
            assert client.learn([(row, "no")])["learned"] == 1
        with (
            Client("http://127.0.0.1:9", retries=0) as nobody,
            pytest.raises(ServiceError, match="does not answer"),
        ):
            nobody.show()
    with pytest.raises(ValueError, match="url must be like"):
        Client("ftp://x")


def test_metrics_are_valid(tmp_path):
    from prometheus_client.parser import text_string_to_metric_families

    with running(tmp_path, {"m": new_model()}) as service:
        service.learn(*range(30))
        service.predict(1, 2)
        families = {
            f.name: f for f in text_string_to_metric_families(service.request("GET", "/metrics")[2].decode())
        }
        values = {name: family.samples[0].value for name, family in families.items() if family.samples}
        assert values["budgetron_learned_rows"] == 30
        assert values["budgetron_predicted_rows"] == 2
        assert values["budgetron_waiting_rows"] == 2
        assert values["budgetron_healthy"] == 1
        assert families["budgetron_learned_rows"].samples[0].labels == {"model": "m"}
