"""Pieces of work, and how their instructions are counted.

`count` runs this file under Valgrind's callgrind, which counts the instructions of a program. The number
does not depend on how busy the machine is. The start of Python and the preparations are not counted: a small
library, compiled from callgrind's header, switches the counting on around each piece.
"""

import copy
import ctypes
import gc
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SWITCHES = r"""
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void start(void) { CALLGRIND_ZERO_STATS; }
void stop(const char *piece) { CALLGRIND_DUMP_STATS_AT(piece); }
"""

# Rounds of a piece of work. Each piece is also run with twice as many rounds: the difference is the cost of
# the rounds, and the rest is the cost of a call. A multiple of the core's block length.
ROUNDS = 256


# ---------------------------------------------------------------------- what is counted


def pieces():
    """Yield the name, the function and the arguments of each piece, with all preparations done."""
    import numpy as np
    from scipy.sparse import csr_array

    import budgetron
    from budgetron import linear

    def normal(n, d, seed=0):
        return np.random.default_rng([seed, n, d]).normal(size=(n, d))

    def blind(n, classes=2):
        # Random labels, so that many rounds are mistakes and cause updates.
        return np.random.default_rng([n, classes]).integers(classes, size=n)

    def adult(n, d=123, groups=14):
        """Return rows like those of Adult: one feature is 1 in each of 14 groups."""
        rng = np.random.default_rng([n, d])
        places = np.arange(groups) * (d // groups) + rng.integers(d // groups, size=(n, groups))
        return csr_array((np.ones(places.size), places.ravel(), np.arange(n + 1) * groups), shape=(n, d))

    def random(budget, gamma):
        return budgetron.RandomizedBudgetPerceptron(budget, gamma=gamma, random_state=0)

    def learn(model, X, y):
        model.partial_fit(X, y)

    def decide(model, X, y):
        model.decision_function(X)

    def play(model, X, y):
        for x, label in zip(X, y.tolist(), strict=True):
            model.play(x, label)

    def full(model, X, y):
        """Return the model after learning these rows, with its budget full."""
        model.fit(X, y)
        assert all(learner.supports.m == model.budget for learner in model._learners)
        return model

    def both(name, work, model, X, y):
        for times in (1, 2):
            n = times * len(y) // 2
            yield f"{name} x{times}", work, (copy.deepcopy(model), X[:n], y[:n])

    n = 2 * ROUNDS
    X, y, before = normal(2 * n, 32), blind(2 * n), (normal(1500, 32, 1), blind(1500))
    dense = full(random(200, 0.02), *before)
    yield from both("dense", learn, dense, X[:n], y[:n])
    yield from both("dense, more rounds", learn, dense, X, y)
    yield from both("dense, decided", decide, dense, X[:n], y[:n])
    yield from both("dense, twice the budget", learn, full(random(400, 0.02), *before), X[:n], y[:n])
    forgetron = full(budgetron.Forgetron(200, gamma=0.02), *before)
    yield from both("dense, Forgetron", learn, forgetron, X[:n], y[:n])

    def products(supports, X, y):
        # Only the matrix products of a batch, in blocks as long as those of the core.
        out = np.empty((128, len(supports)))
        for start in range(0, len(X), 128):
            np.dot(X[start : start + 128], supports.T, out=out)

    yield from both("products", products, before[0][:200], X[:n], y[:n])

    X, y, before = normal(n, 2), blind(n), (normal(1500, 2, 1), blind(1500))
    yield from both("plane", learn, full(random(200, 0.5), *before), X, y)

    # Few supports and features: the cost of a round without the arithmetic.
    def multiply(w, X, y):
        for x in X:
            float(np.dot(x, w))

    small = full(random(5, 0.5), *before)
    yield from both("small", learn, small, X, y)
    yield from both("small, played", play, small, X, y)
    yield from both("small, NumPy", multiply, np.ones(2), X, y)

    X, y, before = adult(n), blind(n), (adult(1500), blind(1500))
    sparse = full(random(300, 0.05), *before)
    yield from both("Adult", learn, sparse, X, y)
    yield from both("Adult, dense", learn, sparse, X.toarray(), y)
    for d in (123, 12_300):
        X, y = adult(4 * n, d), blind(4 * n)
        yield from both(f"Adult, linear, {d} features", learn, linear.Perceptron().fit(X, y), X, y)

    X, y, before = normal(n, 8), blind(n), (normal(800, 8, 1), blind(800))
    for budget in (75, 150):
        model = full(budgetron.Projectron(0.01, budget=budget, gamma=0.1), *before)
        yield from both(f"Projectron, {budget} supports", learn, model, X, y)

    X, before = normal(n, 32), normal(800, 32, 1)
    for classes in (2, 10):
        model = full(random(50, 0.02), before, blind(800, classes))
        yield from both(f"{classes} classes", learn, model, X, blind(n, classes))


def run(library):
    """Count each piece after running it once, so that caches are filled."""
    sys.modules["pandas"] = None  # scikit-learn imports it if installed, which is slow under Valgrind
    switches = ctypes.PyDLL(library)  # keeps the interpreter lock, and so adds no instructions
    prepared = list(pieces())
    for name, work, given in prepared:
        if name.endswith("x1"):
            work(*copy.deepcopy(given))
    gc.collect()
    gc.disable()
    switches.begin()
    for name, work, given in prepared:
        label = name.encode()
        switches.start()
        work(*given)
        switches.stop(label)


# ---------------------------------------------------------------------- counting


def why_not():
    """Return what is missing for counting, or None."""
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if compiler() is None:
        return "there is no C compiler"
    if not any(
        Path(root, "valgrind", "callgrind.h").exists() for root in ("/usr/include", "/usr/local/include")
    ):
        return "valgrind's header callgrind.h is not installed"
    return None


def compiler():
    own = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return next((found for found in map(shutil.which, ("cc", "gcc", own)) if found), None)


def count(folder):
    """Return the instructions of the rounds, and of the call, of each piece by name; files go to `folder`."""
    library = os.path.join(folder, "switches.so")
    command = [compiler(), "-O1", "-shared", "-fPIC", "-x", "c", "-o", library, "-"]
    subprocess.run(command, input=SWITCHES, text=True, check=True)
    dumps = os.path.join(folder, "pieces")
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={dumps}"]
    # A repeated instruction for copying or clearing would be counted once per byte.
    plain = "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000"
    fixed = {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "GLIBC_TUNABLES": plain,
    }
    done = subprocess.run(
        [*valgrind, sys.executable, __file__, library],
        env=os.environ | fixed,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"valgrind ended with {done.returncode}:\n{done.stderr[-4000:]}")
    totals = {}
    for path in Path(folder).glob("pieces.*"):
        text = path.read_text()
        piece = re.search(r"^desc: Trigger: Client Request: (.*) x([12])$", text, re.M)
        if piece:
            totals[piece[1], int(piece[2])] = int(re.search(r"^totals: (\d+)", text, re.M)[1])
    names = {name for name, _ in totals}
    rounds = {name: totals[name, 2] - totals[name, 1] for name in names}
    calls = {name: 2 * totals[name, 1] - totals[name, 2] for name in names}
    return rounds, calls


if __name__ == "__main__":
    run(sys.argv[1])
