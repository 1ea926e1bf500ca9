"""Kill the service at random moments under load; check that nothing is lost, and nothing learned twice.

    python tests/serve/kill_service.py 200      (kill 200 times; about ten minutes)

With --task regression, labels are numbers.

Clients predict, send labels by id, late labels, repeated labels, and rows with labels of their own. After
each kill (SIGKILL), every label that was acknowledged must be in the log exactly once, with its row, and the
model of the next start must have the same bits as a model that learned the log in order.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from running import example, new_model, new_regressor, number_example

from budgetron import files
from budgetron.client import Client, ServiceError
from budgetron.serve import Settings, open_service, run
from budgetron.serve._model import ServedModel
from budgetron.serve._waiting import Limits

CLIENTS = 4
MODELS = {"classification": (new_model, example), "regression": (new_regressor, number_example)}
SETTINGS = Settings(
    waiting=Limits(rows=5000, bytes=4 << 20), snapshot_rows=400, snapshot_seconds=0.7, keep_log=True
)


class Sent:
    """What clients have sent, and what the service has acknowledged. Threads share it.

    `example` returns the row of a number, and its label.
    """

    def __init__(self, example):
        self.example, self.lock = example, threading.Lock()
        self.labels = {}  # id to (row number, label) of everything that was sent
        self.acknowledged = set()
        self.waiting = []  # (id, row number): predicted, not labelled yet
        self.problems = []

    def take(self, source, count):
        with self.lock:
            random.shuffle(source)
            taken, source[:] = source[:count], source[count:]
            return taken


def work(url, sent, stop, seed):
    """Send requests until the service is killed; what is not answered may be sent again later."""
    chance = random.Random(seed)
    with Client(url, model="m", retries=0, timeout=20) as client:
        while not stop.is_set():
            try:
                step(client, sent, chance)
            except ServiceError as error:
                if error.status:
                    sent.problems.append(str(error))
                return  # killed


def step(client, sent, chance):
    action = chance.random()
    if action < 0.4:
        numbers = [chance.randrange(10**9) for _ in range(chance.choice([1, 1, 1, 5, 40]))]
        found = client.predict([sent.example(n)[0] for n in numbers], durable=chance.random() < 0.3)
        with sent.lock:
            sent.waiting += [(p["id"], n) for p, n in zip(found, numbers, strict=True)]
        return
    if action < 0.7:  # labels of predicted rows, some of them from before the last kill; with the rows, which
        # the service needs if a row was lost before it was stored
        chosen = sent.take(sent.waiting, chance.choice([1, 2, 8]))
    elif action < 0.85:  # rows of the client, with ids of its own
        chosen = [
            (f"own-{n}", n) for n in (chance.randrange(10**9) for _ in range(chance.choice([1, 3, 50])))
        ]
    else:  # repeated labels
        with sent.lock:
            known = list(sent.labels)
        chosen = [(id, sent.labels[id][0]) for id in chance.sample(known, min(3, len(known)))]
    if chosen:
        label_rows(client, sent, chosen)


def label_rows(client, sent, chosen):
    labels = {id: (n, sent.example(n)[1]) for id, n in chosen}
    with sent.lock:
        sent.labels |= labels
    examples = [{"id": id, "row": sent.example(n)[0], "label": label} for id, (n, label) in labels.items()]
    client._post("learn", {"examples": examples})
    with sent.lock:
        sent.acknowledged |= labels.keys()


class Check:
    """Compares the folder with what was sent, after each kill."""

    def __init__(self, folder, start):
        self.folder, self.reference, self.last, self.learned = folder, start, 0, {}

    def after_kill(self, sent):
        service = open_service(self.folder, SETTINGS)
        try:
            entry = service.entries["m"]
            for number, record in service.log.records(entry.model.uid, after=self.last):
                for place, id in enumerate(record.ids):
                    name = entry.id_of(id) if isinstance(id, int) else id
                    assert name not in self.learned, f"{name} was learned twice"
                    row, label = sent.example(sent.labels[name][0])
                    assert record.labels[place] == entry.model.task.value_of(label), name
                    assert record.rows.numbers[place].tolist() == [row["a"], row["b"]], name
                    self.learned[name] = number
                self.reference.learn(record, number)
                self.last = number
            lost = sent.acknowledged - self.learned.keys()
            assert not lost, f"{len(lost)} acknowledged labels were lost"
            assert bits(entry.model) == bits(self.reference), "the model has other bits than the log gives"
            assert entry.model.rounds == len(self.learned)
        finally:
            service.log.close()


def bits(model):
    return files.to_bytes(model.model) + repr(model.encoder.state()).encode()


def start_service(folder):
    """Start the service in a new process; return its id and its address."""
    command = [sys.executable, __file__, "--serve", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = process.stdout.readline().strip()
    process.stdout.close()
    process.returncode = 0  # `kill_often` waits for it
    assert port, "the service did not start"
    return process.pid, f"http://127.0.0.1:{port}"


def fork_service(folder):
    """Do the same by a fork of this process, which saves the time of the imports. It must have one thread."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            run(open_service(folder, SETTINGS), port=0, started=lambda port: os.write(writing, b"%d" % port))
        finally:
            os._exit(1)
    os.close(writing)
    port = os.read(reading, 20)
    os.close(reading)
    assert port, "the service did not start"
    return pid, f"http://127.0.0.1:{int(port)}"


def kill_often(folder, kills, seed=0, start=start_service, task="classification"):
    """Kill the service so many times; return how many labels were acknowledged and learned."""
    make, of_number = MODELS[task]
    service = open_service(folder, SETTINGS)
    service.add("m", make())
    service.log.close()
    check = Check(folder, ServedModel.load(folder / "models" / "m.budgetron"))
    sent, chance = Sent(of_number), random.Random(seed)
    for kill in range(kills):
        pid, url = start(folder)
        stop = threading.Event()
        threads = [
            threading.Thread(target=work, args=(url, sent, stop, f"{seed} {kill} {i}"))
            for i in range(CLIENTS)
        ]
        try:
            for thread in threads:
                thread.start()
            time.sleep(chance.uniform(0.05, 1.5))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            stop.set()
            for thread in threads:
                thread.join()
        assert not sent.problems, sent.problems[:3]
        check.after_kill(sent)
        if (kill + 1) % 20 == 0:
            print(f"{kill + 1} kills: {len(sent.acknowledged)} labels acknowledged", flush=True)
    return len(sent.acknowledged), len(check.learned)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--task", choices=list(MODELS), default="classification")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        run(open_service(given.serve, SETTINGS), port=0, started=lambda port: print(port, flush=True))
        return
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        acknowledged, learned = kill_often(
            Path(folder) / "service", given.kills, given.seed, fork_service, given.task
        )
    print(
        f"{given.kills} kills in {time.perf_counter() - start:.0f} s: {acknowledged} labels acknowledged, "
        f"{learned} learned, each once; the model equals that of the log after each kill"
    )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
