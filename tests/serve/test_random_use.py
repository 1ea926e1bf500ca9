"""Random requests, crashes and settings: answers and models are those of a simple account of all ids."""

import random
import shutil

import pytest
from running import CLASSES, COLUMNS, example, new_model, new_regressor, number_example, running
from test_durability import bits

from budgetron.serve._definition import from_columns
from budgetron.serve._waiting import Limits

MODELS = {
    "plain": new_model,
    "sets": lambda: from_columns("secondorder:budget=20", None, COLUMNS, CLASSES, 0.8),
    "numbers": lambda: new_regressor("budget:memory=600kB"),
    "intervals": lambda: new_regressor("arow", 0.9),
}
LIMITS = [Limits(), Limits(rows=50, bytes=1 << 20), Limits(rows=1000, bytes=70_000), Limits(seconds=1.0)]
STARTS, STEPS = 4, 50


class Account:
    """What one model has learned, by the definition of the API."""

    def __init__(self, name):
        self.name, self.example = name, number_example if name in ("numbers", "intervals") else example
        self.waiting, self.learned, self.without_id = {}, set(), 0

    def predict(self, service, chance):
        numbers = [chance.randrange(10**6) for _ in range(chance.choice([1, 3, 20]))]
        rows = [self.example(number)[0] for number in numbers]
        sent = {"rows": rows, "durable": chance.random() < 0.5}
        status, _, answer = service.request("POST", f"/models/{self.name}/predict", sent)
        assert status == 200
        assert answer["round"] == len(self.learned) + self.without_id
        self.waiting |= {p["id"]: number for p, number in zip(answer["predictions"], numbers, strict=True)}

    def learn(self, service, chance):
        chosen = [self.choose(chance) for _ in range(chance.choice([1, 4, 30]))]
        examples = []
        for id, number, has_row in chosen:
            row, label = self.example(number)
            examples.append({"label": label} | ({"row": row} if has_row else {}) | ({"id": id} if id else {}))
        if chance.random() < 0.1:
            examples.append({"row": {"nothing": 1}, "label": label})
        status, _, answer = service.request("POST", f"/models/{self.name}/learn", {"examples": examples})
        if status == 200:
            repeated, new = [], 0
            for id, _, _ in chosen:
                if id in self.learned:
                    repeated.append(id)
                    continue
                new += 1
                if id is None:
                    self.without_id += 1
                else:
                    self.learned.add(id)
            assert (answer["learned"], answer["repeated"]) == (new, repeated)
        else:  # a dropped row, or the bad one: nothing was learned
            assert status in (404, 410, 422)
        assert service.service.entries[self.name].model.rounds == len(self.learned) + self.without_id

    def choose(self, chance):
        """Return an id or None, the number of a row, and whether the row is sent."""
        kind = chance.random()
        if kind < 0.4 and self.waiting:
            id = chance.choice(list(self.waiting))
            return id, self.waiting[id], chance.random() < 0.5
        if kind < 0.6 and self.learned:
            return chance.choice(sorted(self.learned)), 0, chance.random() < 0.5
        id = f"own {chance.randrange(300)}" if kind < 0.8 else None
        return id, chance.randrange(10**6), True


@pytest.mark.parametrize("seed", range(2))
def test_random_use_agrees_with_the_account(tmp_path, seed):
    chance, folder, before = random.Random(seed), tmp_path / "0", {}
    accounts = {name: Account(name) for name in MODELS}
    for start in range(STARTS):
        settings = {
            "waiting": chance.choice(LIMITS),
            "snapshot_rows": chance.choice([5, 100, 10**6]),
            "snapshot_seconds": chance.choice([0.1, 60]),
            "keep_log": chance.random() < 0.3,
        }
        later = tmp_path / str(start + 1)
        with running(folder, {} if start else {n: f() for n, f in MODELS.items()}, **settings) as service:
            for name, entry in service.service.entries.items():
                assert bits(entry.model) == before.get(name, bits(entry.model))
                assert entry.waiting.rows <= settings["waiting"].rows
                assert entry.waiting.nbytes <= settings["waiting"].bytes
            for _ in range(STEPS):
                account = chance.choice(list(accounts.values()))
                (account.predict if chance.random() < 0.4 else account.learn)(service, chance)
            crash = start % 2 == 0
            if crash:
                # No snapshot may be written while the folder is copied; the request waits for the last one.
                service.service.writer._snapshot_rows = service.service.writer._snapshot_seconds = 10**9
                assert service.request("GET", "/models/plain/file")[0] == 200
                shutil.copytree(folder, later)
            before = {name: bits(entry.model) for name, entry in service.service.entries.items()}
        if not crash:
            folder.rename(later)
        folder = later
    assert all(account.learned for account in accounts.values())
