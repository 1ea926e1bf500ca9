"""`play`, one round at a time, against scikit-learn's partial_fit row by row.

python benchmarks/play.py
"""

import argparse
import time

import numpy as np
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

import budgetron


def seconds_a_round(function, rounds, repeat):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for i in range(rounds):
            function(i)
        times.append((time.perf_counter() - start) / rounds)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    n, d = options.rounds, options.features
    y = rng.choice([-1, 1], n)
    X = 0.5 * y[:, None] + rng.normal(size=(n, d))
    rows, labels = list(X), y.tolist()

    with threadpool_limits(1):
        sgd = SGDClassifier(random_state=0)
        sgd.partial_fit(X[:1], y[:1], classes=[-1, 1])
        slow = seconds_a_round(
            lambda i: sgd.partial_fit(X[i : i + 1], y[i : i + 1]), min(n, 500), options.repeat
        )
        print(f"{'SGDClassifier.partial_fit, a row':<40}{1e6 * slow:9.2f} us a round")
        for learner in (
            budgetron.Forgetron,
            budgetron.RandomizedBudgetPerceptron,
            budgetron.RemoveOldestPerceptron,
        ):
            model = learner(budget=options.budget, gamma=0.1)
            model.partial_fit(X, y, classes=[-1, 1])
            assert model.n_support_ == options.budget, "the budget is not full yet: more rounds"
            fast = seconds_a_round(lambda i, play=model.play: play(rows[i], labels[i]), n, options.repeat)
            print(f"{learner.__name__ + '.play':<40}{1e6 * fast:9.2f} us a round{slow / fast:9.0f}x")


if __name__ == "__main__":
    main()
