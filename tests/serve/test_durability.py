"""Nothing is lost: the log, snapshots, repeated and late labels, waiting rows, and a full disk."""

import asyncio
import json
import os
import shutil
import sqlite3
import struct
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from running import example, new_model, running

import budgetron
from budgetron import files
from budgetron.serve import _log, open_service
from budgetron.serve._definition import from_file
from budgetron.serve._log import Log, Record
from budgetron.serve._model import LEAST_BLOCK, ServedModel
from budgetron.serve._requests import read_learn
from budgetron.serve._waiting import Batch, Limits, Waiting
from budgetron.serve._writer import Learn
from budgetron.streams._objects import PlainRows


def bits(model):
    """Return everything that a served model has learned, as bytes."""
    state = model.encoder.state()["running"]
    parts = [
        value.tobytes() if hasattr(value, "tobytes") else repr(value).encode() for value in state.values()
    ]
    return files.to_bytes(model.model) + b"".join(parts)


def replayed(start, folder):
    """Return the model that learns all records of a folder's log in order."""
    log = Log(folder / "log.sqlite")
    try:
        for number, record in log.records(start.uid, after=0):
            start.learn(record, number)
    finally:
        log.close()
    return start


def killed(folder, copy):
    """Return a copy of a folder as it is now: what a killed process would leave."""
    shutil.copytree(folder, copy)
    return copy


def plain(n, start=0):
    values = np.arange(start, start + n, dtype=float)
    return PlainRows(
        np.stack([values, -values], axis=1), ([f"level {i}" if i % 3 else None for i in range(n)],)
    )


# ---------------------------------------------------------------------- the parts


def test_rows_and_records_are_the_same_after_writing_and_reading():
    rows = plain(5)
    assert rows.to_bytes() == PlainRows.from_bytes(rows.to_bytes()).to_bytes()
    missing = PlainRows(np.array([[np.nan, 1e-300]]))
    assert np.array_equal(PlainRows.from_bytes(missing.to_bytes()).numbers, missing.numbers, equal_nan=True)
    only_text = PlainRows(np.empty((2, 0)), (["a", None],))
    assert PlainRows.from_bytes(only_text.to_bytes()).texts == (["a", None],)
    assert len(PlainRows.from_bytes(only_text.to_bytes())) == 2
    record = Record(
        7.5,
        [3, "mine", None, 4, 5],
        rows,
        np.arange(5),
        np.array([-1, 0, 1, 0, 1]),
        np.array([np.nan, 1, 2, 3, 4]),
        64,
    )
    again = Record.from_bytes(7.5, 64, record.to_bytes())
    assert again.to_bytes() == record.to_bytes()
    assert again.ids == record.ids
    assert rows.take([4, 0]).texts == (["level 4", None],)
    assert PlainRows.joined([rows.take([0]), rows.take(slice(1, 5))]).to_bytes() == rows.to_bytes()


def test_the_waiting_rows_stay_within_their_limits():
    waiting = Waiting(Limits(rows=10, bytes=10_000, seconds=100.0), 1000)
    for i in range(50):
        assert waiting.add(plain(1, i), np.zeros(1, np.int64), float(i)) == 1000 + i
        assert waiting.rows <= 10
        assert waiting.nbytes <= 10_000
        if i % 3 == 0:
            waiting.seal()
    assert waiting.displaced == 50 - waiting.rows
    waiting.seal()
    newest = waiting.find(1049)
    assert newest.rows.numbers[1049 - newest.first, 0] == 49.0
    assert waiting.find(1000) is None
    left = waiting.rows
    waiting.label(1049, newest)
    assert waiting.find(1049) is None
    assert waiting.rows == left - 1
    waiting.expire(1000.0)
    assert (waiting.rows, waiting.nbytes) == (0, 0)
    assert waiting.expired == left - 1


def test_a_batch_is_dropped_when_it_has_all_labels():
    waiting = Waiting(Limits(), 0)
    waiting.add(plain(2), np.zeros(2, np.int64), 1.0)
    (batch,) = waiting.seal()
    waiting.stored([batch])
    for number in (0, 1):
        waiting.label(number, waiting.find(number))
    assert waiting.removed() == [0]
    assert waiting.nbytes == 0
    waiting.restore(Batch(5, 2.0, plain(3), np.zeros(3, np.int64), bytearray([1, 0, 1])))
    assert waiting.rows == 1
    assert waiting.find(5) is None
    assert waiting.find(6).first == 5


def test_a_transaction_is_written_completely_or_not_at_all(tmp_path):
    log = Log(tmp_path / "log.sqlite")
    zero = np.zeros(1, np.int64)
    record = Record(1.0, ["x"], plain(1), zero, zero, np.zeros(1), 32)
    with log.transaction():
        log.append("m", record)

    def write_again():
        with log.transaction():
            log.store("m", [Batch(0, 1.0, plain(1), np.zeros(1, np.int64))])
            log.append("m", record)  # its id was learned already

    with pytest.raises(sqlite3.IntegrityError):
        write_again()
    assert [number for number, _ in log.records("m", 0)] == [1]
    assert list(log.waiting("m")) == []
    assert log.learned("m", [], ["x", "y"]) == {"x"}
    log.close()


def test_a_second_process_cannot_serve_the_folder(tmp_path):
    service = open_service(tmp_path)
    with pytest.raises(ValueError, match="another process serves this folder"):
        open_service(tmp_path)
    service.log.close()
    (tmp_path / "log.sqlite").write_bytes(b"something else" * 100)
    with pytest.raises(ValueError, match="not a log of budgetron serve"):
        open_service(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the test asks Linux for names of open files")
def test_a_new_folder_is_on_disk_before_labels_are(tmp_path, monkeypatch):
    """A power failure must not lose the folder whose log has acknowledged labels."""
    synced, fsync = set(), os.fsync

    def noted(descriptor):
        synced.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    open_service(tmp_path / "s").log.close()
    assert {str(tmp_path), str(tmp_path / "s")} <= synced


@pytest.mark.parametrize("table", ["records", "waiting"])
def test_a_changed_bit_of_the_log_is_found(tmp_path, table):
    """SQLite has no checksums of its own. A damaged record would be learned as another row."""
    with running(tmp_path / "a", {"m": new_model()}) as service:
        service.learn(*range(20))
        service.predict(*range(5), durable=True)
        killed(tmp_path / "a", tmp_path / "b")
    open_service(tmp_path / "b").log.close()

    def log(statement, *values):
        database = sqlite3.connect(tmp_path / "b" / "log.sqlite")
        found = database.execute(statement, values).fetchall()
        database.commit()
        database.close()
        return found

    ((key, content), *_) = log(f"SELECT rowid, content FROM {table}")
    random = np.random.default_rng(0)
    for place in random.choice(len(content), 40, replace=False):
        changed = bytearray(content)
        changed[place] ^= 1 << random.integers(8)
        log(f"UPDATE {table} SET content = ? WHERE rowid = ?", bytes(changed), key)
        with pytest.raises(ValueError, match=r"log\.sqlite: .* is damaged .* from a backup"):
            open_service(tmp_path / "b")
    log(f"UPDATE {table} SET content = ? WHERE rowid = ?", content, key)
    again = open_service(tmp_path / "b")
    again.log.close()
    assert (again.entries["m"].model.rounds, again.entries["m"].waiting.rows) == (20, 5)


def test_a_log_without_checksums_is_read(tmp_path):
    """Version 2 had none. The service continues with the log, and writes version 3."""
    with running(tmp_path / "a", {"m": new_model()}) as service:
        service.learn(*range(20))
        service.predict(*range(5), durable=True)
        killed(tmp_path / "a", tmp_path / "b")
        live = bits(service.service.entries["m"].model)
    open_service(tmp_path / "b").log.close()
    database = sqlite3.connect(tmp_path / "b" / "log.sqlite")
    database.execute("UPDATE about SET value = 2 WHERE name = 'version'")
    for table in ("records", "waiting"):
        for key, content in database.execute(f"SELECT rowid, content FROM {table}").fetchall():
            first, second = struct.unpack_from("<II", content)
            older = struct.pack("<II", first, second & ~(1 << 30)) + content[8:-4]
            database.execute(f"UPDATE {table} SET content = ? WHERE rowid = ?", (older, key))
    database.commit()
    database.close()
    with running(tmp_path / "b") as service:
        entry = service.service.entries["m"]
        assert (bits(entry.model), entry.waiting.rows) == (live, 5)
        assert service.service.log._value("version") == 3


# ---------------------------------------------------------------------- the service


@pytest.mark.parametrize(
    "learner", ["secondorder:budget=20", "budget:memory=300kB", "arow", "forgetron:budget=10"]
)
def test_a_restart_gives_the_same_bits(tmp_path, learner):
    start = new_model(learner)
    with running(tmp_path / "a", {"m": start}, keep_log=True, snapshot_rows=100) as first:
        initial = ServedModel.load(tmp_path / "a" / "models" / "m.budgetron")
        for k in range(12):
            status, _, answer = first.learn(*range(20 * k, 20 * k + 20))
            assert (status, answer["learned"], answer["round"]) == (200, 20, 20 * k + 20)
        copy = killed(tmp_path / "a", tmp_path / "b")
        assert first.service.entries["m"].unsaved < 200  # a snapshot was written on the way
        live = bits(first.service.entries["m"].model)
    again = open_service(tmp_path / "b")
    assert again.entries["m"].model.rounds == 240
    assert bits(again.entries["m"].model) == live
    assert again.entries["m"].model.statistics.state().keys() == start.statistics.state().keys()
    assert again.entries["m"].model.statistics.errors == start.statistics.errors
    again.log.close()
    assert bits(replayed(initial, copy)) == live
    stopped = open_service(tmp_path / "a")  # after the snapshot at the end
    assert stopped.entries["m"].unsaved == 0
    assert bits(stopped.entries["m"].model) == live
    stopped.log.close()


def test_a_restart_learns_in_blocks_of_the_same_sizes(tmp_path, monkeypatch):
    """Blocks grow while learning is fast; the log keeps the size that each record was learned with."""
    learned = []
    learn = ServedModel._learn_block

    def noted(self, record, rows):
        learned.append(rows.stop - rows.start)
        return learn(self, record, rows)

    monkeypatch.setattr(ServedModel, "_learn_block", noted)
    monkeypatch.setattr("budgetron.serve._model.BLOCK_SECONDS", 60.0)
    with running(tmp_path / "a", {"m": new_model()}) as service:
        for k in range(3):
            service.learn(*range(200 * k, 200 * k + 200))
        live, sizes = bits(service.service.entries["m"].model), list(learned)
        killed(tmp_path / "a", tmp_path / "b")
    assert sizes == [32] * 6 + [8] + [64] * 3 + [8, 128, 72]
    learned.clear()
    monkeypatch.setattr("budgetron.serve._model.BLOCK_SECONDS", 1e-9)
    again = open_service(tmp_path / "b")
    again.log.close()
    assert learned == sizes
    assert bits(again.entries["m"].model) == live
    assert again.entries["m"].model.block == LEAST_BLOCK  # blocks shrink when learning is slow


def test_a_repeated_id_changes_nothing_and_says_so(tmp_path):
    with running(tmp_path / "a", {"m": new_model()}) as service:
        ids = [p["id"] for p in service.predict(1, 2, 3)[2]["predictions"]]
        send = {"examples": [{"id": id, "label": example(n)[1]} for n, id in enumerate(ids, 1)]}
        status, _, answer = service.request("POST", "/models/m/learn", send)
        assert (status, answer["learned"], answer["repeated"]) == (200, 3, [])
        before = bits(service.service.entries["m"].model)
        status, _, answer = service.request("POST", "/models/m/learn", send)
        assert (status, answer["learned"], answer["repeated"]) == (200, 0, ids)
        own = ["one", "two", "one"]
        assert service.learn(4, 5, 4, ids=own)[2]["repeated"] == ["one"]
        assert service.learn(4, 5, ids=own[:2])[2] | {"round": 5} == service.learn(4, 5, ids=own[:2])[2]
        assert service.service.entries["m"].model.rounds == 5
        copy = killed(tmp_path / "a", tmp_path / "b")
        assert before != bits(service.service.entries["m"].model)
    with running(copy) as service:
        assert service.request("POST", "/models/m/learn", send)[2]["repeated"] == ids
        assert service.learn(4, ids=["one"])[2]["repeated"] == ["one"]
        assert service.service.entries["m"].model.rounds == 5


def test_rows_wait_for_labels_across_a_restart(tmp_path):
    with running(tmp_path / "a", {"m": new_model()}) as service:
        service.learn(*range(50))
        found = service.predict(100, 101, 102, durable=True)[2]["predictions"]
        copy = killed(tmp_path / "a", tmp_path / "b")
    send = [{"id": p["id"], "label": example(100 + i)[1]} for i, p in enumerate(found)]
    with running(copy) as service:
        assert service.service.entries["m"].waiting.rows == 3
        status, _, answer = service.request("POST", "/models/m/learn", {"examples": send[1:]})
        assert (status, answer["learned"]) == (200, 2)
        again = killed(copy, tmp_path / "c")
        fresh = service.predict(103)[2]["predictions"][0]["id"]
        assert fresh not in {p["id"] for p in found}
    with running(again) as service:
        assert service.service.entries["m"].waiting.rows == 1
        answer = service.request("POST", "/models/m/learn", {"examples": send})[2]
        assert (answer["learned"], answer["repeated"]) == (1, [p["id"] for p in found[1:]])
        errors = sum(p["prediction"] != e["label"] for p, e in zip(found, send, strict=True))
        statistics = service.service.entries["m"].model.statistics
        assert (statistics.labels, statistics.errors >= errors) == (53, True)
        # The row that was predicted after the copy was made is not known here.
        lost = service.request("POST", "/models/m/learn", {"examples": [{"id": fresh, "label": "no"}]})
        assert lost[0] == 410


def test_fewer_rows_wait_after_a_start_with_smaller_limits(tmp_path):
    with running(tmp_path, {"m": new_model()}) as service:
        ids = [service.predict(n, durable=True)[2]["predictions"][0]["id"] for n in range(10)]
    with running(tmp_path, waiting=Limits(rows=4, bytes=1 << 20)) as service:
        waiting = service.service.entries["m"].waiting
        assert (waiting.rows, waiting.displaced) == (4, 6)
        send = [{"examples": [{"id": id, "label": "no"}]} for id in ids]
        assert service.request("POST", "/models/m/learn", send[5])[0] == 410
        assert service.request("POST", "/models/m/learn", send[6])[2]["learned"] == 1


def test_rows_expire_and_are_counted(tmp_path):
    limits = Limits(rows=100, bytes=1 << 20, seconds=0.2)
    with running(tmp_path, {"m": new_model()}, waiting=limits) as service:
        id = service.predict(1)[2]["predictions"][0]["id"]
        deadline = time.monotonic() + 20
        while service.service.entries["m"].waiting.expired == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        status, _, problem = service.request(
            "POST", "/models/m/learn", {"examples": [{"id": id, "label": "no"}]}
        )
        assert (status, problem["type"], problem["row"]) == (410, "urn:budgetron:problem:expired-id", 0)
        row = example(1)[0]
        answer = service.request(
            "POST", "/models/m/learn", {"examples": [{"id": id, "row": row, "label": "no"}]}
        )[2]
        assert (answer["learned"], answer["repeated"]) == (1, [])
        answer = service.request(
            "POST", "/models/m/learn", {"examples": [{"id": id, "row": row, "label": "no"}]}
        )[2]
        assert (answer["learned"], answer["repeated"]) == (0, [id])
        assert b'budgetron_expired_rows_total{model="m"} 1.0' in service.request("GET", "/metrics")[2]


def test_the_log_is_truncated_after_a_snapshot(tmp_path):
    with running(tmp_path, {"m": new_model()}, snapshot_rows=10) as service:
        service.learn(*range(10))
        service.learn(*range(10, 15))
        deadline = time.monotonic() + 20
        while service.service.entries["m"].unsaved >= 10:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    log = Log(tmp_path / "log.sqlite")
    (model,) = [ServedModel.load(path) for path in (tmp_path / "models").iterdir()]
    assert list(log.records(model.uid, 0)) == []
    assert model.rounds == 15
    log.close()


def test_an_older_file_is_refused_if_the_log_has_not_all_labels_since(tmp_path):
    file, older = tmp_path / "s" / "models" / "m.budgetron", tmp_path / "older.budgetron"
    with running(tmp_path / "s", {"m": new_model()}) as service:
        service.learn(*range(10))
        with service.client() as client:
            client.save(older)
        service.learn(*range(10, 20))
    newer = file.read_bytes()
    shutil.copy(older, file)
    with pytest.raises(ValueError, match="m: its file is older than the log"):
        open_service(tmp_path / "s")
    file.unlink()
    with running(tmp_path / "s", {"again": from_file(older)}) as service:
        assert service.request("GET", "/models/again")[2]["round"] == 10
    file.write_bytes(newer)
    with running(tmp_path / "s") as service:
        assert service.request("GET", "/models/m")[2]["round"] == 20


def test_labels_are_kept_by_a_new_log_next_to_an_older_file(tmp_path):
    """The log was removed while the service was stopped: no new record may have the number of an old one."""
    with running(tmp_path / "a", {"m": new_model()}) as service:
        for number in range(10):
            service.learn(number)
    for path in (tmp_path / "a").glob("log.sqlite*"):
        path.unlink()
    with running(tmp_path / "a") as service:
        assert service.learn(10, ids=["x"])[2]["round"] == 11
        killed(tmp_path / "a", tmp_path / "b")
        live = bits(service.service.entries["m"].model)
    with running(tmp_path / "b") as service:
        assert bits(service.service.entries["m"].model) == live
        assert service.learn(10, ids=["x"])[2] | {"model": ""} == {
            "model": "",
            "round": 11,
            "learned": 0,
            "repeated": ["x"],
            "rejected": [],
        }


def test_a_file_moved_to_another_folder_learns(tmp_path):
    with running(tmp_path / "a", {"m": new_model()}) as service:
        for number in range(10):
            service.learn(number)
    with running(tmp_path / "b", {"other": new_model()}) as service:
        service.learn(1, name="other")
    shutil.move(tmp_path / "a" / "models" / "m.budgetron", tmp_path / "b" / "models" / "m.budgetron")
    with running(tmp_path / "b") as service:
        assert service.learn(10)[2]["round"] == 11
        assert service.learn(2, name="other")[2]["round"] == 2
        killed(tmp_path / "b", tmp_path / "c")
    with running(tmp_path / "c") as service:
        rounds = {name: entry.model.rounds for name, entry in service.service.entries.items()}
        assert rounds == {"m": 11, "other": 2}


@pytest.mark.parametrize(
    "learner",
    ["randomizedbudgetperceptron:budget=10,random_state=None", "budget:memory=300kB,random_state=None"],
)
def test_a_learner_without_a_seed_is_the_same_after_a_restart(tmp_path, learner):
    with running(tmp_path / "a", {"m": new_model(learner)}) as service:
        for k in range(5):
            service.learn(*range(40 * k, 40 * k + 40))
        live = bits(service.service.entries["m"].model)
        killed(tmp_path / "a", tmp_path / "b")
    again = open_service(tmp_path / "b")
    again.log.close()
    assert bits(again.entries["m"].model) == live


def ready(service):
    return service.request("GET", "/readyz")[0] == 200


def wait_until(condition):
    stop = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < stop
        time.sleep(0.05)


def test_the_service_is_ready_again_without_a_request(tmp_path):
    """A load balancer sends nothing to a service that is not ready."""
    with running(tmp_path, {"m": new_model()}) as service:
        service.learn(*range(40))
        database = service.service.log._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count={pages}").fetchone()
        row = {"a": 1.0, "b": 2.0}
        long = [{"row": row | {"colour": f"x{i}" * 100}, "label": "no"} for i in range(200)]
        assert service.request("POST", "/models/m/learn", {"examples": long})[0] == 507
        assert not ready(service)
        database.execute("PRAGMA max_page_count=1000000").fetchone()
        wait_until(lambda: ready(service))


def test_a_snapshot_that_failed_is_tried_again(tmp_path, monkeypatch):
    """Also if the file was written, and the log could not be truncated; and for each model."""
    monkeypatch.setattr("budgetron.serve._writer.SNAPSHOT_RETRY_SECONDS", 0.3)
    with running(tmp_path, {"m": new_model(), "n": new_model()}, snapshot_rows=1) as service:
        log = service.service.log
        truncate = log.truncate
        uid = service.service.entries["m"].model.uid

        def fail(model, *given):
            if model == uid:
                raise sqlite3.OperationalError("database or disk is full")
            truncate(model, *given)

        with monkeypatch.context() as patch:
            patch.setattr(log, "truncate", fail)
            service.learn(1)
            wait_until(lambda: not ready(service))
            service.learn(1, name="n")
            wait_until(lambda: service.service.entries["n"].unsaved == 0)
            status, _, problem = service.request("GET", "/readyz")
            assert (status, "no snapshot of m can be written" in problem["detail"]) == (503, True)
        wait_until(lambda: ready(service))
        assert list(log.records_by_model()) == []


def test_a_full_disk_stops_learning_but_not_predictions(tmp_path):
    with running(tmp_path / "a", {"m": new_model()}) as service:
        service.learn(*range(40))
        database = service.service.log._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count={pages}").fetchone()
        before = bits(service.service.entries["m"].model)
        row = {"a": 1.0, "b": 2.0, "colour": "red"}
        long = [{"row": row | {"colour": f"x{i}" * 100}, "label": "no", "id": f"id{i}"} for i in range(200)]
        status, headers, problem = service.request("POST", "/models/m/learn", {"examples": long})
        assert (status, problem["type"]) == (507, "urn:budgetron:problem:disk-full")
        assert "full" in problem["detail"]
        assert headers["retry-after"] == "1"
        assert bits(service.service.entries["m"].model) == before
        found = service.predict(1, 2)
        assert found[0] == 200
        assert all(p["prediction"] in ("no", "yes") for p in found[2]["predictions"])
        assert service.request("GET", "/readyz")[0] == 503
        assert service.request("GET", "/healthz")[0] == 200
        database.execute("PRAGMA max_page_count=1000000").fetchone()
        status, _, answer = service.request("POST", "/models/m/learn", {"examples": long})
        assert (status, answer["learned"], answer["repeated"]) == (200, 200, [])
        assert service.request("GET", "/readyz")[0] == 200
        kept = [{"id": p["id"], "label": "no"} for p in found[2]["predictions"]]
        assert service.request("POST", "/models/m/learn", {"examples": kept})[2]["learned"] == 2


def test_a_model_without_memory_to_learn_stops_until_the_next_start(tmp_path, monkeypatch):
    """The label is in the log. Later labels must not be learned before it, nor a snapshot be written."""
    with running(tmp_path / "a", {"m": new_model(), "n": new_model()}, snapshot_rows=1) as service:
        service.learn(*range(10), ids=[f"id{i}" for i in range(10)])
        time.sleep(0.3)  # a snapshot is written

        def play(X, labels):
            raise MemoryError

        monkeypatch.setattr(service.service.entries["m"].model, "_play", play)
        status, _, problem = service.learn(10, ids=["id10"])
        assert (status, problem["type"]) == (503, "urn:budgetron:problem:stopped-learning")
        monkeypatch.undo()
        assert service.learn(11, ids=["id11"])[0] == 503
        assert service.predict(11)[2]["round"] == 10
        assert service.learn(1, name="n")[0] == 200
        assert "m stopped learning: MemoryError()" in service.request("GET", "/readyz")[2]["detail"]
    with running(tmp_path / "a") as service:
        answer = service.learn(10, 11, ids=["id10", "id11"])[2]
        assert (answer["learned"], answer["repeated"], answer["round"]) == (1, ["id10"], 12)
        with running(tmp_path / "b", {"m": new_model()}) as never_stopped:
            for numbers in (range(10), [10], [11]):
                never_stopped.learn(*numbers)
            assert bits(never_stopped.service.entries["m"].model) == bits(service.service.entries["m"].model)


def test_models_of_one_write_are_learned_though_one_fails(tmp_path, monkeypatch):
    service = open_service(tmp_path)
    entries = [service.add(name, new_model()) for name in "mn"]

    def play(X, labels):
        raise MemoryError

    async def write():
        row, label = example(1)
        body = json.dumps({"examples": [{"row": row, "label": label}]}).encode()
        jobs = [Learn(entry, read_learn(entry, body, 10)) for entry in entries]
        service.writer.handle(jobs)
        return jobs

    with monkeypatch.context() as patch:
        patch.setattr(entries[0].model, "_play", play)
        first, second = asyncio.run(write())
    assert (first.error.kind, second.error) == ("stopped-learning", None)
    assert b'"learned":1' in second.result
    assert (service.writer.commits, [entry.model.rounds for entry in entries]) == (1, [0, 1])
    service.log.close()
    again = open_service(tmp_path)
    again.log.close()
    assert [again.entries[name].model.rounds for name in "mn"] == [1, 1]


def test_a_row_that_cannot_be_learned_is_reported_and_the_others_are_learned(tmp_path):
    model = new_model("kernelperceptron:kernel=poly,degree=12,gamma=1", {"a": "number", "b": "number"})
    model.encoder.scale = False
    with running(tmp_path / "a", {"m": model}) as service:
        rows = [{"a": 1.0, "b": 2.0}, {"a": 1e30, "b": 1e30}, {"a": 2.0, "b": -1.0}]
        examples = [
            {"row": row, "label": label} for row, label in zip(rows, ("yes", "no", "no"), strict=True)
        ]
        status, _, answer = service.request("POST", "/models/m/learn", {"examples": examples})
        assert (status, answer["learned"], answer["rejected"], answer["round"]) == (200, 2, [1], 2)
        copy = killed(tmp_path / "a", tmp_path / "b")
        live = bits(service.service.entries["m"].model)
    with running(copy) as service:
        assert bits(service.service.entries["m"].model) == live
        assert service.service.entries["m"].model.rejected == 1


def test_the_file_of_a_model_is_one_of_the_command_line(tmp_path):
    with running(tmp_path / "a", {"m": new_model()}) as service:
        service.learn(*range(60))
        with service.client() as client:
            client.save(tmp_path / "m.budgetron")
        loaded = budgetron.load(tmp_path / "m.budgetron")
        assert loaded.rounds_ == 60
        assert files.to_bytes(loaded) == files.to_bytes(service.service.entries["m"].model.model)


def test_a_deleted_model_is_gone_if_its_file_cannot_be_removed(tmp_path, monkeypatch):
    def unlink(*given, **options):
        raise PermissionError("not permitted")

    with running(tmp_path, {"m": new_model()}) as service:
        service.learn(*range(10))
        monkeypatch.setattr(type(tmp_path), "unlink", unlink)
        assert service.request("DELETE", "/models/m")[0] == 204
        monkeypatch.undo()
        assert service.learn(1)[0] == 404  # a label that the next start would not know
    again = open_service(tmp_path)
    again.log.close()
    assert not again.entries
    assert not (tmp_path / "models" / "m.budgetron").exists()


def test_a_deleted_model_stays_deleted_after_a_crash(tmp_path, monkeypatch):
    """The process ends after the model was removed from the log, and before its file was."""
    with running(tmp_path / "a", {"m": new_model(), "n": new_model()}) as service:
        service.learn(*range(10))
        monkeypatch.setattr(type(tmp_path), "unlink", lambda *given, **options: None)
        assert service.request("DELETE", "/models/m")[0] == 204
        killed(tmp_path / "a", tmp_path / "b")
        monkeypatch.undo()
    assert (tmp_path / "b" / "models" / "m.budgetron").exists()
    again = open_service(tmp_path / "b")
    again.log.close()
    assert list(again.entries) == ["n"]
    assert not (tmp_path / "b" / "models" / "m.budgetron").exists()


def test_labels_of_a_model_without_a_file_are_reported(tmp_path, caplog):
    with running(tmp_path / "a", {"m": new_model()}) as service:
        service.learn(*range(10))
        killed(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "models" / "m.budgetron").unlink()
    open_service(tmp_path / "b").log.close()
    assert "the log has 1 records of a model whose file is not in the folder" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed")
@pytest.mark.parametrize("name", ["log.sqlite", "log.sqlite-wal"])
def test_nothing_is_acknowledged_if_the_log_was_removed(tmp_path, name):
    with running(tmp_path, {"m": new_model()}) as service:
        assert service.learn(*range(10))[0] == 200
        (tmp_path / name).unlink()
        status, _, problem = service.learn(*range(10, 20))
        assert (status, problem["type"]) == (507, "urn:budgetron:problem:disk-full")
        assert "was removed while the service runs" in problem["detail"]
        assert service.predict(1)[2]["round"] == 10
        assert service.request("GET", "/readyz")[0] == 503


def test_a_folder_from_a_backup_gives_no_id_to_another_row(tmp_path, monkeypatch):
    with running(tmp_path / "s", {"m": new_model()}) as service:
        service.learn(1)
    shutil.copytree(tmp_path / "s", tmp_path / "backup")
    with running(tmp_path / "s") as service:
        after = service.predict(2)[2]["predictions"][0]["id"]
    monkeypatch.setattr(_log, "now", lambda: time.time() + 2 * 3600)
    with running(tmp_path / "backup") as service:
        assert service.predict(3)[2]["predictions"][0]["id"] != after
        sent = {"examples": [{"id": after, "label": "no"}]}
        status, _, problem = service.request("POST", "/models/m/learn", sent)
        assert (status, problem["type"]) == (410, "urn:budgetron:problem:expired-id")


def test_a_change_of_the_clock_drops_no_rows(tmp_path, monkeypatch):
    with running(tmp_path, {"m": new_model()}) as service:
        service.learn(*range(10))
        (found,) = service.predict(3)[2]["predictions"]
        clock = time.time
        monkeypatch.setattr(time, "time", lambda: clock() + 30 * 86400)
        time.sleep(2.5)  # old rows are dropped once a second
        assert service.request("GET", "/models/m")[2]["waiting"]["expired"] == 0
        sent = {"examples": [{"id": found["id"], "label": "yes"}]}
        assert service.request("POST", "/models/m/learn", sent)[2]["learned"] == 1
        assert service.request("GET", "/models/m")[2]["waiting"]["label_delay_seconds"] < 86400
