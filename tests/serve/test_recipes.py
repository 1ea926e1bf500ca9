"""The examples of docs/serve.md, and the files for containers, systemd and Kafka."""

import configparser
import json
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
from running import new_model, running

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "serve.md").read_text()
COLUMNS = {"amount": "number", "country": ["de", "fr"]}
CLASSES = ["fraud", "ok"]


def rows(n):
    values = [(float(i % 100 * 10), ["de", "fr"][i % 2]) for i in range(n)]
    return [({"amount": a, "country": c}, "fraud" if a > 500 and c == "fr" else "ok") for a, c in values]


@pytest.fixture
def service(tmp_path):
    model = new_model("budget:memory=500kB", COLUMNS, CLASSES)
    with running(tmp_path / "service", {"default": model}) as found:
        with found.client(model="default") as client:
            client.learn(rows(400))
        yield found


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs curl and bash")
def test_the_examples_with_curl(service, tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
    assert sum(block.count("curl") for block in blocks) == 10
    answers = []
    for block in blocks:
        script = block.replace("http://127.0.0.1:8000", service.url)
        run = subprocess.run(
            ["bash", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 0, run.stderr
        answers.append(json.JSONDecoder().raw_decode(run.stdout)[0])
        last = run.stdout
    predicted, learned, problem, created, price = answers
    shown, wrong, number = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.S)]
    assert predicted.keys() == shown.keys()
    assert [p.keys() for p in predicted["predictions"]] == [p.keys() for p in shown["predictions"]]
    assert [p["prediction"] for p in predicted["predictions"]] == ["ok", "fraud"]
    assert (learned["learned"], learned["repeated"]) == (2, [])
    assert problem | {"title": ""} == wrong | {"title": ""}
    assert created["name"] == "spam"
    assert (tmp_path / "spam.budgetron").stat().st_size > 100
    assert service.request("GET", "/models/spam")[0] == 404
    assert price["task"] == "regression"
    answer = json.loads(last[last.rindex('{"model":') :])
    assert (answer.keys(), answer["round"]) == (number.keys(), number["round"])
    (found,), (example,) = answer["predictions"], number["predictions"]
    assert found.keys() == example.keys()
    assert found["prediction"] == pytest.approx(example["prediction"], rel=1e-6)
    assert found["interval"] == pytest.approx(example["interval"])


def test_the_example_of_the_client(service, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```py\n(.*?)```", PAGE, re.S)
    exec(code.replace("http://127.0.0.1:8000", service.url), {})
    assert capsys.readouterr().out == "ok\n"
    assert service.service.entries["default"].model.rounds == 402
    assert (tmp_path / "today.budgetron").exists()


def test_the_page_lists_every_address(service):
    paths = service.request("GET", "/openapi.json")[2]["paths"]
    for path in paths:
        assert path in PAGE


def test_the_kafka_consumer(service, monkeypatch):
    """It runs with a consumer that has messages, some of them twice, and then stops."""
    path = ROOT / "packaging" / "kafka" / "consumer.py"
    assert len(path.read_text().splitlines()) <= 30
    commits = []

    class StoppedError(Exception):
        pass

    class KafkaConsumer:
        def __init__(self, topic, **options):
            assert options["enable_auto_commit"] is False
            values = [json.dumps({"row": row, "label": label}).encode() for row, label in rows(6)]
            message = types.SimpleNamespace
            sent = [message(topic=topic, partition=0, offset=i, value=v) for i, v in enumerate(values)]
            self._parts = iter([{0: sent[:4]}, {}, {0: sent[2:]}])

        def poll(self, timeout_ms, max_records):
            try:
                return next(self._parts)
            except StopIteration:
                raise StoppedError from None

        def commit(self):
            commits.append(service.service.entries["default"].model.rounds)

    monkeypatch.setitem(sys.modules, "kafka", types.SimpleNamespace(KafkaConsumer=KafkaConsumer))
    monkeypatch.setenv("SERVICE", service.url)
    with pytest.raises(StoppedError):
        exec(compile(path.read_text(), str(path), "exec"), {})
    assert commits == [404, 406]


def test_the_unit_and_the_container_start_the_command():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(ROOT / "packaging" / "systemd" / "budgetron.service")
    started = unit["Service"]["ExecStart"]
    container = (ROOT / "packaging" / "docker" / "Dockerfile").read_text()
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", container, re.M)[1])
    helped = subprocess.run(
        [sys.executable, "-m", "budgetron", "serve", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for option in {*re.findall(r"--[\w-]+", started), *(word for word in entry if word.startswith("--"))}:
        assert option in helped
    assert int(unit["Service"]["TimeoutStopSec"]) > 20
