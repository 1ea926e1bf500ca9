"""Compare a fleet, bit for bit, with as many separate estimators, whatever happens to the fleet meanwhile.

python tests/fleet_identity.py                       20,000 keys, all learners, all kinds of rows
python tests/fleet_identity.py 500 forgetron         500 keys, one learner
python tests/fleet_identity.py 20000 float64-dense   20,000 keys, all learners, one kind of rows

All 72 runs take half an hour or more. Most of it goes to the separate estimators, which learn one row per
call, and to the comparison of each key.
"""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

import budgetron
from budgetron import (
    Forgetron,
    KernelPerceptron,
    RandomizedBudgetPerceptron,
    RemoveOldestPerceptron,
    kernels,
    linear,
)
from budgetron._base.access import hypotheses_of
from budgetron.fleet import Fleet

LEARNERS = {
    "perceptron": KernelPerceptron(gamma=0.3),
    "remove-oldest": RemoveOldestPerceptron(4, gamma=0.3),
    "forgetron": Forgetron(5, gamma=0.3),
    "forgetron-poly": Forgetron(3, kernel="poly", gamma=0.5, degree=2, coef0=1.0),
    "forgetron-normalized": Forgetron(3, kernel=kernels.Normalized("linear")),
    "forgetron-laplacian": Forgetron(6, kernel="laplacian", gamma=0.2),
    "forgetron-1": Forgetron(1, gamma=0.3),
    "remove-oldest-allsubsets": RemoveOldestPerceptron(4, kernel="allsubsets"),
    "randomized": RandomizedBudgetPerceptron(4, gamma=0.3, random_state=3),
    "linear": linear.Perceptron(),
    "linear-normalized": linear.Perceptron(normalize=True),
    "pa": linear.PassiveAggressive(variant="PA"),
    "pa-1-weighted": linear.PassiveAggressive(C=0.2, class_weight={1: 3.0}),
    "arow": linear.AROW(),
    "arow-diagonal": linear.AROW(covariance="diagonal"),
    "arow-logistic": linear.AROW(loss="logistic"),
    "arow-forget": linear.AROW(forget=0.99),
    "arow-diagonal-forget": linear.AROW(covariance="diagonal", forget=0.98),
}

# The type of the rows, and whether they are sparse.
KINDS = {
    "float32-dense": (np.float32, False),
    "float64-CSR": (np.float64, True),
    "float64-dense": (np.float64, False),
    "float32-CSR": (np.float32, True),
}


def stream(n=1500, keys=25, d=6, dtype=np.float64, sparse=False, text=False, seed=0):
    """Return keys, rows and labels: if n allows it, every key has a row, and some keys have many."""
    rng = np.random.default_rng(seed)
    chosen = rng.zipf(1.3, n) % keys
    if n > 2 * keys:
        chosen[rng.permutation(n)[:keys]] = np.arange(keys)
    X = rng.normal(size=(n, d)).astype(dtype)
    if sparse:
        X *= rng.random((n, d)) < 0.4
        X[rng.random(n) < 0.02] = 0.0
    X[rng.random(n) < 0.01] *= 30.0  # rows of other sizes choose other loops
    w = rng.normal(size=(keys, d))
    y = (np.einsum("ij,ij->i", X, w[chosen]) + 0.3 * rng.normal(size=n) > 0).astype(int)
    names = np.array([f"kunde-{k}-ä" for k in range(keys)], object)
    return names[chosen] if text else chosen, csr_array(X) if sparse else X, y


def one_row(X, i):
    return X[i] if isinstance(X, np.ndarray) else X[[i]]


def separate(learner, keys, X, y):
    """Return the margins and the models of estimators that each see the rows of one key, one by one."""
    models, margins = {}, np.empty(len(y))
    for i, key in enumerate(keys.tolist()):
        if key not in models:
            models[key] = clone(learner)
        margins[i] = models[key].play(one_row(X, i), y[i], classes=[0, 1])
    return margins, models


def cuts(n, seed=1):
    """Return the rows of eight batches of random lengths, the empty ones left out."""
    rng = np.random.default_rng(seed)
    parts = np.split(np.arange(n), np.sort(rng.integers(0, n, 7)))
    return [part for part in parts if len(part)]


def play_in_parts(fleet, keys, X, y, folder):
    """Play a stream in several batches; save, load, split, merge and copy the fleet between them.

    Return the fleet that has learned everything, and the margins.
    """
    margins = []
    for step, rows in enumerate(cuts(len(y))):
        margins.append(fleet.play(keys[rows], X[rows], y[rows], classes=[0, 1]))
        if step == 1:
            budgetron.save(fleet, folder / "fleet.budgetron")
            fleet = budgetron.load(folder / "fleet.budgetron")
        elif step == 2:
            parts = fleet.split(3)
            fleet = parts[0].merge(*parts[1:])
        elif step == 3:
            fleet = Fleet.from_bytes(fleet.to_bytes())
        elif step == 4:
            fleet = copy.deepcopy(pickle.loads(pickle.dumps(fleet)))
    return fleet, np.concatenate(margins)


def numbers_of(model):
    """Return all numbers that decide what a model predicts and learns."""
    (one,) = hypotheses_of(model)
    state = one.state()
    if hasattr(one, "supports"):
        order = one.supports.order[: one.supports.m]
        kept = {"order": order, "top": one.supports.top, "rows": one.supports.rows(order)}
        kept |= {name: getattr(one.supports, name)[order] for name in ("square", "own", "rounds")}
        kept |= {name: state[name][order] for name in ("coef", "tail") if state[name].size}
        kept |= {name: state[name] for name in ("factor", "norm2", "peak", "tally", "rounds", "mistakes")}
        return kept | {"bits": str(state.get("bits"))}
    kept = {
        name: state[name] for name in ("weights", "factor", "norm2", "peak", "rounds", "mistakes", "updates")
    }
    covariance = state["covariance"] or {}
    kept |= {name: value for name, value in covariance.items() if name not in ("direction", "projections")}
    return kept | state["extra"]


def assert_same(model, other):
    first, second = numbers_of(model), numbers_of(other)
    assert first.keys() == second.keys()
    for name in first:
        if not np.array_equal(first[name], second[name], equal_nan=not isinstance(first[name], str)):
            np.testing.assert_array_equal(first[name], second[name], name)


def check(learner, dtype, sparse, keys, rows, folder):
    """Raise an error if any key of a fleet differs in any bit from an estimator of its own."""
    chosen, X, y = stream(rows, keys, d=12 if sparse else 6, dtype=dtype, sparse=sparse)
    expected, models = separate(learner, chosen, X, y)
    fleet, margins = play_in_parts(Fleet(clone(learner)), chosen, X, y, folder)
    np.testing.assert_array_equal(margins, expected)
    assert sorted(fleet.keys_.tolist()) == sorted(models)
    assert len(models) == keys
    starts = np.argsort(chosen, kind="stable")
    first = dict(zip(chosen[starts][::-1].tolist(), starts[::-1].tolist(), strict=True))
    for key, model in models.items():
        copied = fleet[key]
        assert_same(copied, model)
        row, label = one_row(X, first[key]), 1 - y[first[key]]
        for _ in range(2):  # it goes on as the estimator does
            assert copied.play(row, label) == model.play(row, label)
        assert_same(copied, model)


def main():
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    chosen = sys.argv[2:]
    unknown = set(chosen) - set(LEARNERS) - set(KINDS)
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; known are {', '.join([*LEARNERS, *KINDS])}")
    gc.disable()  # a collection walks through all estimators
    for kind in [kind for kind in KINDS if kind in chosen] or list(KINDS):
        for name in [name for name in LEARNERS if name in chosen] or list(LEARNERS):
            start = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                check(LEARNERS[name], *KINDS[kind], keys, 3 * keys, Path(folder))
            gc.collect()
            seconds = time.process_time() - start
            print(f"{name}, {kind}: {keys:,} keys, no difference ({seconds:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
