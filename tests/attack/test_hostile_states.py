"""Some of the attacks by changed states; `hostile_states.py` has all of them."""

import io
import pickle
from collections import OrderedDict

import numpy as np
import pytest
import skops.io
from corruption import corrupted_states
from hostile_states import attack, attacked_models, name_of, restored
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from budgetron import BSGD, NOGD, BudgetClassifier, BudgetPA, CalibratedClassifier, Forgetron, linear
from budgetron._persistence.registry import CLASSES
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

NAMES = [name_of(model) for model in attacked_models()]

# One change in so many is tried here, a different one for each model. No model has fewer changes.
STEP = 90


def test_every_class_is_attacked():
    attacked = {type(model) for model in attacked_models()}
    assert attacked >= set(CLASSES.values())


@pytest.mark.parametrize("number", range(len(NAMES)), ids=lambda number: f"{number} {NAMES[number]}")
def test_changed_states(number):
    outcomes, failures = attack(number, STEP, offset=number)
    assert not failures, "\n".join(f"{change}: {wrong}" for change, wrong in failures.items())
    assert sum(outcomes.values()) > 0


def test_changes_are_refused_and_accepted():
    """The attack is useful only if some changes are refused, and some accepted."""
    outcomes, _ = attack(NAMES.index("kernelized._forgetron.Forgetron"), step=9, offset=0)
    assert outcomes["refused"] > 100
    assert outcomes["used"] > 10


def fitted(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return model.fit(X, (X[:, 0] * X[:, 1] > 0).astype(int))


WRAPPERS = {
    "calibrated": CalibratedClassifier(Forgetron(5, gamma=0.5)),
    "averaged": AveragedClassifier(linear.Perceptron()),
    "penalized": PenalizedRiskClassifier(linear.Perceptron()),
}
SIGMOIDS = {
    "of no columns": np.zeros((1, 0)),
    "float32": np.ones((1, 7), np.float32),
    "two rows": np.ones((2, 7)),
    "a list": [[1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]],
    "read-only, of no curvature": np.broadcast_to(0.0, (1, 7)),
    "Fortran order of another shape": np.ones((7, 1)).T[:, :6],
}


@pytest.mark.parametrize("wrong", SIGMOIDS)
@pytest.mark.parametrize(
    "model", [WRAPPERS["calibrated"], BudgetClassifier("1MB")], ids=["calibrated", "budget"]
)
def test_sigmoids(model, wrong):
    model = fitted(model)
    with pytest.raises(ValueError, match="sigmoids"):
        restored(model, model.__getstate__() | {"sigmoids_": SIGMOIDS[wrong]})


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_that_disagree_with_their_learner(name):
    model = fitted(WRAPPERS[name])
    state = model.__getstate__()
    for change, message in [
        ({"n_features_in_": 4}, "the same features"),
        ({"n_features_in_": 2}, "the same features"),
        ({"classes_": np.array([0, 1, 2])}, "the same classes"),
        ({"classes_": np.array([5, 6])}, "the same classes"),
        ({"learner_": fitted(linear.AROW())}, "average|journal|classes|as it learns|sigmoids"),
        ({"learner_": Forgetron()}, "should have learned"),
        ({"learner_": model}, "should be a learner"),
    ]:
        if name == "calibrated" and change.get("learner_").__class__ is linear.AROW:
            continue  # another learner of the same width can be calibrated
        with pytest.raises(ValueError, match=message):
            restored(model, state | change)


def test_an_attribute_cannot_replace_a_method():
    model = fitted(linear.Perceptron())
    for name in ("_check_rows", "_margins", "predict", "_learned_names"):
        with pytest.raises(ValueError, match="should not be in the state"):
            restored(model, model.__getstate__() | {name: len})


def test_an_attribute_of_the_user_is_kept():
    model = fitted(linear.Perceptron())
    model.note = "made on Monday"
    assert pickle.loads(pickle.dumps(model)).note == "made on Monday"


def test_a_refused_state_changes_nothing():
    model = fitted(Forgetron(5, gamma=0.5))
    before = pickle.dumps(model)
    for _, state in list(corrupted_states(model))[::25]:
        try:
            model.__setstate__(state)
        except ValueError:
            assert pickle.dumps(model) == before
        else:
            model.__setstate__(pickle.loads(before).__getstate__())


def test_two_names_of_one_array_become_two_arrays():
    model = fitted(Forgetron(5, gamma=0.5))
    state = model.__getstate__()
    rule = state["_learners"]["states"][0]
    rule["scratch"] = rule["tail"] = rule["coef"]
    other = restored(model, state)._learners[0].rule
    arrays = [other.coef, other.tail, other.scratch, model._learners[0].rule.coef]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def test_a_state_that_contains_itself():
    model = fitted(Forgetron(5, gamma=0.5))
    state = model.__getstate__()
    state["_learners"]["states"][0]["supports"] = state
    with pytest.raises(ValueError, match="levels"):
        restored(model, state)


@pytest.mark.parametrize("wrong", ["of no columns", "float32"])
@pytest.mark.parametrize("cls", [CalibratedClassifier, BudgetClassifier])
def test_skops_passes_the_same_checks(cls, wrong, monkeypatch):
    """A skops file with a changed array is refused, if only the classes are trusted that skops asks for."""
    model = fitted(WRAPPERS["calibrated"] if cls is CalibratedClassifier else BudgetClassifier("1MB"))
    state = model.__getstate__() | {"sigmoids_": SIGMOIDS[wrong]}
    with monkeypatch.context() as patch:
        patch.setattr(cls, "__getstate__", lambda self: state)
        data = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=data)
    assert all(name.startswith("budgetron.") for name in trusted)
    with pytest.raises(ValueError, match="sigmoids"):
        skops.io.load(io.BytesIO(data), trusted=trusted)


@pytest.mark.parametrize("library", [pickle, skops.io])
def test_the_learner_of_a_pipeline_is_checked(library, monkeypatch):
    """A pipeline of scikit-learn checks nothing, but its last step passes the checks of the learner."""
    learner = fitted(Forgetron(5, gamma=0.5))
    pipeline = Pipeline([("scale", StandardScaler()), ("learn", learner)])
    state = learner.__getstate__()
    state["_learners"]["states"][0]["supports"]["order"][0] = 10**8
    with monkeypatch.context() as patch:
        patch.setattr(Forgetron, "__getstate__", lambda self: state)
        data = library.dumps(pipeline)
    options = {} if library is pickle else {"trusted": skops.io.get_untrusted_types(data=data)}
    with pytest.raises(ValueError, match="the slab"):
        library.loads(data, **options)


def full_inverse(model):
    """Return the state of a model that keeps an inverse of its Gram matrix, and the inverse."""
    state = pickle.loads(pickle.dumps(model.__getstate__()))
    return state, state["_learners"]["states"][0]["inverse"]


@pytest.mark.parametrize(
    "model", [BudgetPA(5, "projecting", gamma=0.5), BSGD(5, "projection", gamma=0.5), NOGD(5, 2, gamma=0.5)]
)
def test_the_inverse_of_the_gram_matrix(model):
    model = fitted(model)
    slab = model.__getstate__()["_learners"]["states"][0]["supports"]
    used, free = slab["order"][: slab["m"]], slab["order"][slab["m"] :]
    restored(model, full_inverse(model)[0])
    changes = {
        "symmetric": (used[0], used[1], 1.0),
        "0 at free slots": (free[0], free[0], 1.0),
        "positive": (used[0], used[0], -2.0),
    }
    for message, (row, column, change) in changes.items():
        state, inverse = full_inverse(model)
        inverse[row, column] += change * np.abs(inverse).max()
        with pytest.raises(ValueError, match=message):
            restored(model, state)
    state, inverse = full_inverse(model)
    inverse[used[0], :] = inverse[:, used[0]] = 0.0
    if type(model) is NOGD:  # its matrix is singular
        restored(model, state)
    else:
        with pytest.raises(ValueError, match="positive"):
            restored(model, state)


def test_a_state_in_other_kinds_of_dicts_is_copied():
    """The state can be changed after it was checked, but the model has its own arrays."""
    model = fitted(Forgetron(5, gamma=0.5))
    state = OrderedDict(pickle.loads(pickle.dumps(model.__getstate__())))
    other = restored(model, state)
    state["_learners"]["states"][0]["supports"]["order"][:] = 10**8
    X = np.random.default_rng(1).normal(size=(40, 3))
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    assert other.partial_fit(X, np.arange(40) % 2).rounds_ == 100
