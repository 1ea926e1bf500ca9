"""Attack every class with every change of a single field of its state.

    python tests/attack/hostile_states.py            all changes of all models
    python tests/attack/hostile_states.py Forgetron  only models whose class has this text in its name

A state is refused with a `ValueError`, or it makes a model that can be used, and that the file loader would
accept. (A file has no place for Python functions and for attributes of the user's own, which pickle keeps;
`save` refuses them with a `TypeError`.) Each model is attacked in a process of its own, so that a crash is
detected and reported with the change that caused it.
"""

import faulthandler
import multiprocessing
import pickle
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sys.path.insert(0, str(Path(__file__).parent))

from corruption import corrupted_states
from fuzz_files import models

import budgetron
from budgetron.experts import ExpertAlgorithm
from budgetron.river import RiverClassifier

# Seconds that one state may take.
LONGEST = 30.0


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


def estimator_calls(model):
    d = vars(model).get("n_features_in_", 3)
    X = np.linspace(-1.0, 1.0, 40 * d).reshape(40, d) if d < 10**5 else csr_array((40, d))
    labels = vars(model).get("classes_", np.array([0, 1]))
    y = labels[np.arange(40) % len(labels)]
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


def attack(number, step, offset, progress=None):
    """Attack model `number` with every `step`-th change; return the outcomes, and the failures by change."""
    model = list(models())[number]
    outcomes, failures = Counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.budgetron"
        for i, (what, state) in enumerate(corrupted_states(model)):
            if i % step != offset % step:
                continue
            if progress is not None:
                progress.send(("attack", what))
            found = outcome(model, state, path)
            outcomes[found if found in ("refused", "used") else "wrong"] += 1
            if found not in ("refused", "used"):
                failures[what] = found
    return outcomes, failures


def _work(pipe, number, step, offset):
    faulthandler.enable()
    pipe.send(("done", *attack(number, step, offset, pipe)))


def run(numbers, step=1, offset=0, report=None):
    """Attack the models with these numbers; return the outcomes and failures by (class, change)."""
    context = multiprocessing.get_context("spawn")
    names = [name_of(model) for model in models()]
    outcomes, failures = Counter(), {}
    for number in numbers:
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(theirs, number, step, offset))
        worker.start()
        theirs.close()
        what = "the first change"
        while True:
            try:
                kind, *rest = ours.recv() if ours.poll(LONGEST) else ("hang",)
            except EOFError:
                kind = "died"
            if kind == "attack":
                what = rest[0]
            elif kind == "done":
                outcomes += rest[0]
                failures |= {(names[number], change): wrong for change, wrong in rest[1].items()}
                break
            else:
                worker.kill()
                failures[names[number], what] = f"the process {kind}"
                break
        worker.join()
        if report is not None:
            report(number, names[number], outcomes)
    return outcomes, failures


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    names = [name_of(model) for model in models()]
    start = time.monotonic()

    def report(number, name, outcomes):
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(outcomes.items()))
        print(f"{number + 1}/{len(names)} {name}: {counts}; {time.monotonic() - start:.0f} s", flush=True)

    outcomes, failures = run([i for i, name in enumerate(names) if wanted in name], report=report)
    for (name, change), wrong in failures.items():
        print(f"{name}: {change}: {wrong}")
    print(f"{sum(outcomes.values())} states: {dict(outcomes)}; {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
