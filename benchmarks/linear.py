"""The linear learners over CSR rows, against scikit-learn's; and what averaging costs.

python benchmarks/linear.py                           rows shaped like Adult's a9a
BUDGETRON_DATA=folder python benchmarks/linear.py     a9a itself, if a9a.gz is there
"""

import os
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

import budgetron
from budgetron import linear
from budgetron.batch import AveragedClassifier

FILE = Path(os.environ.get("BUDGETRON_DATA", "")) / "a9a.gz"


def rows():
    """a9a, or as many rows of 14 ones among 123 places."""
    if FILE.is_file():
        X, y = load_svmlight_file(str(FILE), n_features=123)
        order = np.random.default_rng(0).permutation(len(y))
        return csr_array(X[order]), y[order], "a9a"
    rng = np.random.default_rng(0)
    n = 32561
    places = np.sort(rng.permuted(np.tile(np.arange(123), (n, 1)), axis=1)[:, :14], axis=1)
    X = csr_array((np.ones(14 * n), places.ravel(), np.arange(0, 14 * n + 1, 14)), shape=(n, 123))
    y = np.where(X @ rng.normal(size=123) + 2 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, "like a9a"


def seconds(make, X, y, repeat):
    """The shortest of some first calls of partial_fit with the whole batch."""
    times = []
    for _ in range(repeat):
        model = make()
        start = time.perf_counter()
        model.partial_fit(X, y, classes=[-1, 1])
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    X, y, name = rows()
    with threadpool_limits(1):
        sgd = seconds(lambda: SGDClassifier(loss="perceptron", penalty=None, random_state=0), X, y, 10)
        print(f"{name}: {X.shape[0]} rows, one thread")
        print(f"{'':<40}{'rounds/s':>12}{'of SGDClassifier':>19}{'averaging costs':>17}")
        print(f"{'SGDClassifier.partial_fit':<40}{len(y) / sgd:12,.0f}")
        for learner in (
            linear.Perceptron(),
            linear.VotedPerceptron(),
            linear.MarginPerceptron(),
            linear.PassiveAggressive(C=0.01),
            linear.OnlineSVM(),
            linear.Winnow(balanced=True),
            linear.AROW(covariance="diagonal"),
            linear.AROW(),
        ):
            plain = seconds(lambda m=learner: type(m)(**m.get_params()), X, y, 10)
            averaged = seconds(lambda m=learner: AveragedClassifier(m), X, y, 10)
            print(f"{learner!s:<40}{len(y) / plain:12,.0f}{sgd / plain:18.1f}x{averaged / plain:16.2f}x")
        for learner in (
            budgetron.KernelPerceptron(gamma=0.02),
            budgetron.Projectron(eta=0.3, gamma=0.02),
            budgetron.Forgetron(1500, gamma=0.02),
            budgetron.RandomizedBudgetPerceptron(1500, gamma=0.02, random_state=0),
            budgetron.RemoveOldestPerceptron(1500, gamma=0.02),
        ):
            plain = seconds(lambda m=learner: type(m)(**m.get_params()), X, y, 3)
            averaged = seconds(lambda m=learner: AveragedClassifier(m), X, y, 3)
            print(f"{type(learner).__name__:<40}{len(y) / plain:12,.0f}{'':19}{averaged / plain:16.2f}x")


if __name__ == "__main__":
    main()
