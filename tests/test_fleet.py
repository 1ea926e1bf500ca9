"""`Fleet`: every key learns exactly as an estimator of its own, whatever happens to the fleet meanwhile."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
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
KEYS = 25


def stream(n=1500, d=6, dtype=np.float64, sparse=False, text=False, seed=0):
    rng = np.random.default_rng(seed)
    keys = rng.zipf(1.3, n) % KEYS
    X = rng.normal(size=(n, d)).astype(dtype)
    if sparse:
        X *= rng.random((n, d)) < 0.4
        X[rng.random(n) < 0.02] = 0.0
    X[rng.random(n) < 0.01] *= 30.0  # rows of other sizes choose other loops
    w = rng.normal(size=(KEYS, d))
    y = (np.einsum("ij,ij->i", X, w[keys]) + 0.3 * rng.normal(size=n) > 0).astype(int)
    names = np.array([f"kunde-{k}-ä" for k in range(KEYS)], object)
    return names[keys] if text else keys, csr_array(X) if sparse else X, y


def separate(learner, keys, X, y):
    """Return the margins and the models of estimators that each see the rows of one key, one by one."""
    models, margins = {}, np.empty(len(y))
    for i, key in enumerate(keys.tolist()):
        model = models.setdefault(key, clone(learner))
        margins[i] = model.play(X[[i]] if not isinstance(X, np.ndarray) else X[i], y[i], classes=[0, 1])
    return margins, models


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
        np.testing.assert_array_equal(first[name], second[name], name)


def cuts(n, seed=1):
    rng = np.random.default_rng(seed)
    return np.split(np.arange(n), np.sort(rng.integers(0, n, 7)))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "CSR"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", LEARNERS)
def test_each_key_learns_as_an_estimator_of_its_own(name, dtype, sparse, tmp_path):
    keys, X, y = stream(dtype=dtype, sparse=sparse, d=12 if sparse else 6)
    expected, models = separate(LEARNERS[name], keys, X, y)
    fleet, margins = Fleet(clone(LEARNERS[name])), []
    for step, rows in enumerate(part for part in cuts(len(y)) if len(part)):
        margins.append(fleet.play(keys[rows], X[rows], y[rows], classes=[0, 1]))
        if step == 1:
            budgetron.save(fleet, tmp_path / "fleet.budgetron")
            fleet = budgetron.load(tmp_path / "fleet.budgetron")
        elif step == 2:
            parts = fleet.split(3)
            fleet = parts[0].merge(*parts[1:])
        elif step == 3:
            fleet = Fleet.from_bytes(fleet.to_bytes())
        elif step == 4:
            fleet = copy.deepcopy(pickle.loads(pickle.dumps(fleet)))
    np.testing.assert_array_equal(np.concatenate(margins), expected)
    assert sorted(fleet.keys_.tolist()) == sorted(models)
    for key, model in models.items():
        copied = fleet[key]
        assert_same(copied, model)
        for i in np.flatnonzero(keys == key)[:5]:  # it goes on as the estimator does
            row = X[[i]] if sparse else X[i]
            assert copied.play(row, 1 - y[i]) == model.play(row, 1 - y[i])
        assert_same(copied, model)
