"""All learners in all variants, with their references, and streams for the tests."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import reference as ref

import budgetron
from budgetron.kernels import Normalized

MODEL_KERNELS = {
    "callable": ref.kernels.cauchy_rows,
    "normalized poly": Normalized("poly"),
    "normalized linear": Normalized("linear"),
    "normalized callable": Normalized(ref.kernels.cauchy_rows),
}


@dataclass(frozen=True)
class Case:
    """A learner with parameters, and its reference implementation."""

    learner: type
    reference: type
    parameters: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)

    def model(self, kernel="rbf", **parameters):
        _, settings = ref.KERNELS[kernel]
        return self.learner(
            kernel=MODEL_KERNELS.get(kernel, kernel), **self.parameters, **settings, **parameters
        )

    def start_reference(self, K, y):
        arguments = dict(self.arguments)
        if "random_state" in self.parameters:
            arguments["rng"] = self.model()._generators(1)[0]
        return self.reference(K, y, **arguments)


def simple(learner, reference, **parameters):
    return Case(learner, reference, parameters, parameters)


CASES = {
    "perceptron": simple(budgetron.KernelPerceptron, ref.KernelPerceptron),
    "remove oldest": simple(budgetron.RemoveOldestPerceptron, ref.RemoveOldest, budget=10),
    "shared budget": simple(budgetron.SharedBudgetPerceptron, ref.RemoveOldest, budget=10),
    "shrinking": Case(budgetron.ShrinkingPerceptron, ref.ShrinkingPerceptron, {"shrink": 0.9}, {"phi": 0.9}),
    "shifting": Case(
        budgetron.ShrinkingPerceptron,
        ref.ShiftingPerceptron,
        {"variant": "shifting", "rate": 2.5},
        {"rate": 2.5},
    ),
    "forgetron self-tuned": Case(budgetron.Forgetron, ref.SelfTunedForgetron, {"budget": 10}, {"budget": 10}),
    "forgetron basic": Case(
        budgetron.Forgetron, ref.BasicForgetron, {"budget": 10, "variant": "basic"}, {"budget": 10}
    ),
    "forgetron greedy": Case(
        budgetron.Forgetron, ref.GreedyForgetron, {"budget": 10, "variant": "greedy"}, {"budget": 10}
    ),
    "forgetron greedy-cumulative": Case(
        budgetron.Forgetron,
        ref.CumulativeGreedyForgetron,
        {"budget": 10, "variant": "greedy-cumulative"},
        {"budget": 10},
    ),
    "forgetron simplified": Case(
        budgetron.Forgetron, ref.SimplifiedForgetron, {"budget": 10, "variant": "simplified"}, {"budget": 10}
    ),
    "forgetron simplified, parameters": Case(
        budgetron.Forgetron,
        ref.SimplifiedForgetron,
        {"budget": 10, "variant": "simplified", "eta": 0.5, "decay": 0.1, "radius": 2.0},
        {"budget": 10, "eta": 0.5, "decay": 0.1, "radius": 2.0},
    ),
    "random": Case(
        budgetron.RandomizedBudgetPerceptron,
        ref.RandomizedBudget,
        {"budget": 10, "random_state": 3},
        {"budget": 10},
    ),
    "random modified": Case(
        budgetron.RandomizedBudgetPerceptron,
        ref.ModifiedRandomizedBudget,
        {"budget": 10, "variant": "modified", "random_state": 3},
        {"budget": 10},
    ),
    "random modified, parameters": Case(
        budgetron.RandomizedBudgetPerceptron,
        ref.ModifiedRandomizedBudget,
        {"budget": 10, "variant": "modified", "random_state": 3, "eta": 0.7, "radius": 1.5},
        {"budget": 10, "eta": 0.7, "radius": 1.5},
    ),
    "cks": simple(budgetron.CKSPerceptron, ref.CKS, budget=10),
    "stoptron": simple(budgetron.Stoptron, ref.Stoptron, budget=10),
    "projectron": simple(budgetron.Projectron, ref.Projectron, eta=0.4),
    "projectron norm": Case(budgetron.Projectron, ref.Projectron, {"norm_bound": 1.5}, {"U": 1.5}),
    "projectron budget": simple(budgetron.Projectron, ref.Projectron, eta=0.3, budget=10),
    "projectron++": Case(
        budgetron.ProjectronPlusPlus, ref.ProjectronPlusPlus, {"norm_bound": 1.5}, {"U": 1.5}
    ),
    "projectron++ eta": Case(
        budgetron.ProjectronPlusPlus,
        ref.ProjectronPlusPlus,
        {"norm_bound": 1.5, "eta": 0.4, "budget": 15},
        {"U": 1.5, "eta": 0.4, "budget": 15},
    ),
    "second order": Case(
        budgetron.SecondOrderProjectron,
        ref.SecondOrderProjectron,
        {"budget": 10, "threshold": 0.05, "r": 0.7, "linear": False},
        {"budget": 10, "threshold": 0.05, "r": 0.7},
    ),
    "pa": simple(budgetron.PassiveAggressive, ref.PassiveAggressive, C=1.0, variant="PA"),
    "pa-i": simple(budgetron.PassiveAggressive, ref.PassiveAggressive, C=0.6, variant="PA-I"),
    "pa-i budget": simple(
        budgetron.PassiveAggressive, ref.PassiveAggressive, C=0.6, variant="PA-I", budget=10
    ),
    "pa-ii": simple(budgetron.PassiveAggressive, ref.PassiveAggressive, C=0.6, variant="PA-II"),
    "ogd": simple(budgetron.OGD, ref.OGD, eta=0.3),
    "ogd decay": simple(budgetron.OGD, ref.OGD, eta=0.3, decay=0.2, budget=10),
    "ogd logistic": simple(
        budgetron.OGD, ref.OGD, eta=0.7, decay=0.01, loss="logistic", schedule="sqrt", budget=10
    ),
    "ogd squared": simple(budgetron.OGD, ref.OGD, eta=0.02, loss="squared", budget=10),
    "ogd pegasos": simple(budgetron.OGD, ref.OGD, eta=2.0, decay=0.5, schedule="inverse"),
    "bogd": Case(
        budgetron.BOGD,
        ref.BOGD,
        {"budget": 10, "eta": 0.3, "decay": 0.1, "variant": "uniform", "random_state": 3, "limit": 1.5},
        {"budget": 10, "eta": 0.3, "decay": 0.1, "variant": "uniform", "limit": 1.5},
    ),
    "bogd++": Case(
        budgetron.BOGD,
        ref.BOGD,
        {"budget": 10, "eta": 0.3, "decay": 0.05, "random_state": 3, "limit": 3.0},
        {"budget": 10, "eta": 0.3, "decay": 0.05, "limit": 3.0},
    ),
    "budget pa simple": simple(budgetron.BudgetPA, ref.BudgetPA, budget=10, C=0.6),
    "budget pa projecting": simple(budgetron.BudgetPA, ref.BudgetPA, budget=10, variant="projecting", C=0.6),
    "budget pa nearest": simple(budgetron.BudgetPA, ref.BudgetPA, budget=10, variant="nearest", C=0.6),
    "tighter": simple(budgetron.TighterPerceptron, ref.Tighter, budget=10),
    "ahpatron": simple(budgetron.Ahpatron, ref.Ahpatron, budget=10),
    "ahpatron, parameters": simple(
        budgetron.Ahpatron, ref.Ahpatron, budget=10, epsilon=0.3, eta=0.2, radius=1.0
    ),
    "bsgd removal": simple(budgetron.BSGD, ref.BSGD, budget=10, variant="removal", decay=0.05),
    "bsgd projection": simple(budgetron.BSGD, ref.BSGD, budget=10, variant="projection", decay=0.05),
    "nogd": simple(budgetron.NOGD, ref.NOGD, budget=10, rank=5, eta=0.3),
    "auc": Case(
        budgetron.AUCMaximizer,
        ref.AUCMaximizer,
        {"budget": 10, "eta": 0.5, "random_state": 3},
        {"budget": 10, "eta": 0.5},
    ),
    "voted": Case(budgetron.VotedKernelPerceptron, ref.VotedPerceptron),
}


def all_weights(model):
    """Return the intercept and then the weights of a linear model, one row per output."""
    return np.hstack([model.intercept_[:, None], model.coef_])


def with_ones(X):
    """Return rows (1, x)."""
    return np.hstack([np.ones((len(X), 1)), X])


def with_budget(case, budget):
    """Return the case with another budget, or None if it has no budget."""
    if "budget" not in case.parameters:
        return None
    parameters = case.parameters | {"budget": budget}
    if parameters.get("variant") == "simplified" and "decay" not in parameters:
        return None  # the theorem's decay needs a budget of at least 6
    return Case(case.learner, case.reference, parameters, case.arguments | {"budget": budget})


def random_stream(n, rng):
    """Return rows of two Gaussians, with label noise."""
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, 3)) * [0.8, 1.2, 0.5] + 0.6 * y[:, None]
    return X, np.where(rng.random(n) < 0.1, -y, y)


def sparse_stream(n, rng):
    """Return rows with few non-zeros, some of them without any."""
    X = np.where(rng.random((n, 12)) < 0.15, rng.normal(size=(n, 12)), 0.0)
    return X, np.where(X[:, :4].sum(axis=1) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def nasty_stream(n, rng):
    """Return duplicates with both labels, rows of zeros, and long runs of one class."""
    points = rng.normal(size=(n // 6, 2)).round(2)
    points[::7] = 0.0
    X = points[rng.integers(len(points), size=n)]
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    y[rng.random(n) < 0.2] *= -1
    y[n // 3 : n // 2] = 1.0
    y[n // 2 : 2 * n // 3] = -1.0
    return X, y


def exact_stream(n, rng):
    """Return rows of small integers, whose inner products are exact, so that ties are exact."""
    X = rng.integers(-2, 3, size=(n, 3)).astype(float)
    return X, rng.choice([-1.0, 1.0], n)


STREAMS = {"random": random_stream, "sparse": sparse_stream, "nasty": nasty_stream}


@cache
def stream(name, n=240, seed=0):
    X, y = (STREAMS | {"exact": exact_stream})[name](n, np.random.default_rng([seed, n]))
    return X, y


@cache
def gram_of(name, kernel, n=240, seed=0):
    X, _ = stream(name, n, seed)
    function, parameters = ref.KERNELS[kernel]
    return ref.gram(function, X, **parameters)
