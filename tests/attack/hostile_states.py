"""Attack every class with every change of a single field of its state.

    python tests/attack/hostile_states.py [--processes P]   all changes of all models
    python tests/attack/hostile_states.py Forgetron         only of classes with this in their name
    python tests/attack/hostile_states.py --replay TASK     run one task again, here, and print each change

A state is refused with a `ValueError`, or it makes a model that can be used, and that the file loader would
accept. (A file has no place for Python functions and for attributes of the user's own, which pickle keeps;
`save` refuses them with a `TypeError`.) Tasks run in other processes, so that a crash or a hang is detected,
and reported with the task that caused it.
"""

import argparse
import faulthandler
import pickle
import sys
import tempfile
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.pipeline import Pipeline

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sys.path.insert(0, str(Path(__file__).parent))

from corruption import corrupted_states
from fuzz_files import models
from supervisor import supervise_several

import budgetron
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.online_regressor import OnlineRegressor
from budgetron.experts import ExpertAlgorithm
from budgetron.fleet import Fleet
from budgetron.river import RiverClassifier, RiverDetector, RiverRegressor

# Tasks per model.
PARTS = 20


def attacked_models():
    """Yield the models to attack, without pipelines.

    Pipelines of scikit-learn restore themselves without checks. Their learners are attacked alone.
    """
    return (model for model in models() if not isinstance(model, Pipeline))


def name_of(model):
    return f"{type(model).__module__.removeprefix('budgetron.')}.{type(model).__name__}"


def restored(model, state):
    """Return an object of the model's class with this state, as pickle and skops make it."""
    other = type(model).__new__(type(model))
    other.__setstate__(state)
    return other


def use(model):
    """Call every method that reads or changes what was learned; only clear errors are allowed."""
    if isinstance(model, ExpertAlgorithm):
        advice = np.zeros((3, min(getattr(model, "n_experts_", 4), 50)))
        calls = [lambda: model.weights_, lambda: model.play(advice, np.zeros(3)), lambda: model.regret_]
    elif isinstance(model, RiverClassifier):
        row = dict.fromkeys("abc", 0.5)
        label = model._labels[0] if model._labels else "x"
        calls = [lambda: model.predict_one(row), lambda: model.predict_proba_one(row)]
        calls += [lambda: model.learn_one(row, label), lambda: model.learn_one(row | {"d": 1.0}, label)]
    elif isinstance(model, RiverRegressor):
        row = dict.fromkeys("abc", 0.5)
        calls = [lambda: model.predict_one(row), lambda: model.learn_one(row, 0.5)]
        calls += [lambda: model.learn_one(row | {"d": 1.0}, 0.5)]
    elif isinstance(model, RiverDetector):
        row = dict.fromkeys("abc", 0.5)
        calls = [lambda: model.score_one(row), lambda: model.predict_one(row), lambda: model.learn_one(row)]
        calls += [lambda: model.learn_one(row | {"d": 1.0})]
    elif isinstance(model, OnlineDetector):
        calls = detector_calls(model)
    elif isinstance(model, OnlineRegressor):
        calls = regressor_calls(model)
    elif isinstance(model, Fleet):
        calls = fleet_calls(model)
    else:
        calls = estimator_calls(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            try:
                call()
            except (ValueError, AttributeError, IndexError) as error:
                # AttributeError: an attribute that this class, or an unfitted model, does not have.
                if isinstance(error, IndexError):
                    raise


def regressor_calls(model):
    d = min(getattr(model, "n_features_in_", 3), 5000)
    X = np.linspace(-1.0, 1.0, 4 * d).reshape(4, d)
    return [
        lambda: model.predict(X),
        lambda: model.predict(X, **({"return_std": True} if hasattr(model, "noise_variance_") else {})),
        lambda: model.predict_interval(X),
        lambda: model.experts_,
        lambda: model.coef_,
        lambda: model.dual_coef_,
        lambda: model.noise_variance_,
        lambda: model.play(X[0], 0.5),
        lambda: model.partial_fit(X, np.ones(4)),
        lambda: model.nbytes_,
    ]


def detector_calls(model):
    d = min(getattr(model, "n_features_in_", 3), 5000)
    X = np.linspace(-1.0, 1.0, 4 * d).reshape(4, d)
    return [
        lambda: model.predict(X),
        lambda: model.score_samples(X),
        lambda: model.score_row(X[0]),
        lambda: model.dual_coef_,
        lambda: model.offset_,
        lambda: model.alarms_,
        lambda: model.play(X[0]),
        lambda: model.partial_fit(X),
        lambda: model.nbytes_,
    ]


def fleet_calls(fleet):
    X = np.linspace(-1.0, 1.0, 120).reshape(40, 3)
    known = fleet.keys_.tolist() if hasattr(fleet, "keys_") else []
    keys = ([*known[:3], *(["other"] if known and isinstance(known[0], str) else [-5])] * 40)[:40]
    y = getattr(fleet, "classes_", np.array([0, 1]))[np.arange(40) % 2]
    yield fleet.stats
    yield lambda: fleet.common_
    yield lambda: fleet.predict(keys, X)
    yield lambda: [fleet[key].partial_fit(X, y) for key in fleet.keys_.tolist()[:3]]
    yield lambda: fleet.play(keys, X, y)
    yield lambda: [fleet.certificate(key) for key in fleet.keys_.tolist()[:3]]
    yield lambda: [part.partial_fit(keys, X, y) for part in fleet.split(2)]
    yield lambda: fleet.merge(fleet)


def estimator_calls(model):
    d = vars(model).get("n_features_in_", 3)
    # With very many features, several sparse rows take memory and time for each of them.
    n = 40 if d < 10**5 else 1
    X = np.linspace(-1.0, 1.0, n * d).reshape(n, d) if d < 10**5 else csr_array((n, d))
    labels = vars(model).get("classes_", np.array([0, 1]))
    y = labels[np.arange(n) % len(labels)]
    yield lambda: model.predict(X)
    yield lambda: model.predict_proba(X)
    yield lambda: model.partial_fit(X, y)
    yield lambda: model.play(X[:1], y.tolist()[0])
    yield lambda: model.support_vectors_
    yield lambda: model.coef_
    yield lambda: model.risk_bound_
    yield lambda: model.experts_
    yield lambda: model.decision_function(X)
    yield lambda: model.progressive_fit(X, y)


def outcome(model, state, path):
    """Return "refused", "used" or what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            other = restored(model, state)
    except ValueError:
        return "refused"
    except Exception as error:
        return f"refused by {type(error).__name__}: {error}"
    try:
        with suppress(TypeError):
            budgetron.save(other, path)
    except budgetron.ModelFileError as error:
        return f"accepted, but not by the file loader: {error}"
    try:
        use(other)
        pickle.dumps(other)
    except Exception as error:
        return f"accepted, then {type(error).__name__}: {error}"
    return "used"


def attack(number, step, offset, announce=lambda change: None):
    """Attack model `number` with every `step`-th change; return the outcomes, and the failures by change.

    `announce` is called with each change before it is tried.
    """
    model = list(attacked_models())[number]
    outcomes, failures = Counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.budgetron"
        for i, (what, state) in enumerate(corrupted_states(model)):
            if i % step != offset % step:
                continue
            announce(what)
            found = outcome(model, state, path)
            outcomes[found if found in ("refused", "used") else "wrong"] += 1
            if found not in ("refused", "used"):
                failures[what] = found
    return outcomes, failures


def worker(reporter, tasks):
    faulthandler.enable()
    reporter.ready()
    for task in tasks:
        number, part = divmod(task, PARTS)
        outcomes, failures = attack(number, PARTS, part, lambda change: reporter.is_alive())
        lines = [f"{change}: {wrong}" for change, wrong in failures.items()]
        reporter.result(task, outcomes, "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", default="", help="a part of the names of classes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--replay", type=int, metavar="TASK", help="run one task again, in this process")
    options = parser.parse_args()
    if options.replay is not None:
        faulthandler.enable()
        print(attack(options.replay // PARTS, PARTS, options.replay % PARTS, announce=print))
        return 0
    names = [name_of(model) for model in attacked_models()]
    numbers = [number for number, name in enumerate(names) if options.name in name]
    tasks = [number * PARTS + part for number in numbers for part in range(PARTS)]
    total, failed = Counter(), 0
    for done, (task, outcomes, failure) in enumerate(
        supervise_several(options.processes, worker, (), tasks), 1
    ):
        total += outcomes if isinstance(outcomes, Counter) else Counter(wrong=1)
        if failure:
            failed += 1
            print(f"--replay {task} ({names[task // PARTS]}): {failure}", flush=True)
        if done % (5 * PARTS) == 0 or done == len(tasks):
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(total.items()))
            print(f"{done} of {len(tasks)} tasks: {counts}", flush=True)
    print(f"{total.total()} states; {failed} tasks failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
