"""One pass over a permutation of Adult a9a: the results of Table 1 of the Projectron paper."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import budgetron
from budgetron import certify, linear
from budgetron._certify.svm import Dual
from budgetron._core.kernel import Kernel
from budgetron.bounds import norm_limit

FILE = Path(os.environ.get("BUDGETRON_DATA", "")) / "a9a.gz"

pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="a9a.gz is not in the folder that BUDGETRON_DATA names"
)

# Learner, parameters, error in % and its tolerance, number of supports and its tolerance.
EXPECTED = {
    "perceptron": (budgetron.KernelPerceptron, {}, 21.0, 0.3, 6840, 70),
    "forgetron": (budgetron.Forgetron, {"budget": 1500}, 21.9, 0.4, 1500, 0),
    "random": (budgetron.RandomizedBudgetPerceptron, {"budget": 1500, "random_state": 0}, 22.1, 0.5, 1500, 0),
    "projectron": (budgetron.Projectron, {"norm_bound": norm_limit(1500)}, 21.0, 0.3, 1100, 50),
    "pa-i": (budgetron.PassiveAggressive, {"C": 1.0}, 18.2, 0.2, 12560, 130),
}


@pytest.fixture(scope="module")
def adult():
    X, y = load_svmlight_file(str(FILE), n_features=123)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", EXPECTED)
def test_kernel_learners(adult, name, dtype):
    learner, parameters, error, error_within, supports, supports_within = EXPECTED[name]
    X, y = adult
    model = learner(gamma=0.02, **parameters)
    trace = model.progressive_fit(X.astype(dtype), y)
    print(f"{name} {np.dtype(dtype).name}: {100 * trace.error_rate:.2f} % with {model.n_support_} supports")
    assert abs(100 * trace.error_rate - error) <= error_within
    assert abs(model.n_support_ - supports) <= supports_within


# Not in that table: learner, and the highest error in % allowed on this permutation.
LINEAR = {
    "perceptron": (linear.Perceptron(), 22.0),
    "pa-i": (linear.PassiveAggressive(C=0.01), 16.4),
    "arow": (linear.AROW(), 15.7),
    "arow diagonal": (linear.AROW(covariance="diagonal"), 15.7),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_learners(adult, name):
    model, limit = LINEAR[name]
    trace = model.progressive_fit(*adult)
    print(f"linear {name}: {100 * trace.error_rate:.2f} %")
    assert 100 * trace.error_rate <= limit


def test_best_competitor(adult):
    X, y = adult[0][:5000], adult[1][:5000]
    model = budgetron.KernelPerceptron(gamma=0.02)
    certificate = certify(model, X, y, model.progressive_fit(X, y))
    dual = Dual(Kernel("rbf", 0.02), X.toarray(), y)
    dual.solve(1.0, 1e-5)
    assert certificate.holds
    assert certificate.bound <= 1.01 * (dual.norm2() + 2 * dual.losses())


@pytest.mark.parametrize(
    "model",
    [
        linear.AROW(),
        linear.AROW(covariance="diagonal"),
        budgetron.SecondOrderProjectron(300, gamma=0.02),
        budgetron.SecondOrderProjectron(100, linear=False, gamma=0.02),
    ],
    ids=repr,
)
def test_the_bound_of_second_order_learners_is_not_vacuous(adult, model):
    X, y = adult[0][:5000], adult[1][:5000]
    certificate = certify(model, X, y, model.progressive_fit(X, y, ledger=True))
    assert certificate.holds
    assert not certificate.vacuous
    assert certificate.bound < 0.5 * certificate.most < 0.5 * certificate.rounds
