"""Memory after the budget is full: exact bytes, and the process' resident size over millions of rounds.

    python benchmarks/memory.py [--rounds 2000000]

Ends with an error if `nbytes_` changes or the process grows by more than 2 MB.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import budgetron

ALLOWED = 2 * 2**20


def resident():
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def batch(rng, n=5000, d=8):
    y = rng.choice([-1, 1], n)
    return 0.4 * y[:, None] + rng.normal(size=(n, d)), y


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2_000_000, help="rounds after the budget is full")
    options = parser.parse_args()
    if not Path("/proc/self/statm").exists():
        sys.exit("resident size is read from /proc, which this system does not have")
    models = {
        "Forgetron": budgetron.Forgetron(200, gamma=0.1),
        "Forgetron, greedy": budgetron.Forgetron(200, "greedy", gamma=0.1),
        "RBP": budgetron.RandomizedBudgetPerceptron(200, gamma=0.1, random_state=0),
        "Projectron++": budgetron.ProjectronPlusPlus(2.0, budget=200, gamma=0.1),
    }
    failed = False
    with threadpool_limits(1):
        for name, model in models.items():
            rng = np.random.default_rng(0)
            for _ in range(10):  # fill the budget and warm up every path
                X, y = batch(rng)
                model.partial_fit(X, y, classes=[-1, 1])
                model.predict(X)
                for i in range(100):
                    model.play(X[i], y[i])
            start, size, first = model.rounds_, model.nbytes_, resident()
            low = high = first
            while model.rounds_ - start < options.rounds:
                X, y = batch(rng)
                model.partial_fit(X, y)
                for i in range(100):
                    model.play(X[i], y[i])
                low, high = min(low, resident()), max(high, resident())
            same = model.nbytes_ == size
            failed |= not same or high - first > ALLOWED
            print(
                f"{name:<20} {model.rounds_ - start:>10,} rounds, {model.n_support_} supports, "
                f"nbytes_ {size:,} {'constant' if same else 'CHANGED'}, resident {first / 2**20:.1f} MB, "
                f"then {low / 2**20:.1f} to {high / 2**20:.1f} MB"
            )
    if failed:
        sys.exit("memory grew")


if __name__ == "__main__":
    main()
