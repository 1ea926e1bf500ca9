"""Every registered class in every variant that is attacked, and a small fitted model of each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from cases import CASES, with_budget
from reference import KERNELS
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from test_linear import CASES as LINEAR

import budgetron
from budgetron import CalibratedClassifier, ConformalClassifier, ConformalRegressor, experts, linear, river
from budgetron._persistence.registry import CLASSES
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier
from budgetron.fleet import Fleet

# Kernels that each kernel learner is combined with in turn, besides "rbf".
OTHER_KERNELS = ("poly", "laplacian", "allsubsets", "callable", "normalized poly")

# Learners whose coefficients are whole numbers. With the linear kernel and on the rows of these tests, their
# margins are computed without rounding, so that ties are the same in every order of computation.
WHOLE_KERNELIZED = ("perceptron", "remove oldest", "shared budget", "random", "cks", "stoptron", "voted")
WHOLE_LINEAR = ("perceptron", "margin", "voted")

# With more features than this, and few non-zeros, supports are stored by their non-zeros.
WIDE = 1200


@dataclass(frozen=True)
class Variant:
    """A class with parameters.

    Attributes
    ----------
    registered : str
        The name of the class in the register of model files.
    make : callable
        Returns a new model.
    family : {"classifier", "algorithm", "adapter", "fleet", "regressor", "detector"}
        Which machine attacks it.
    exact : bool
        Whether margins are computed without rounding.
    savable : bool
        Whether `budgetron.save` accepts it; it refuses models that contain code.
    d : int
        Number of features of its rows.
    foreign : bool
        Whether it contains a learner of scikit-learn, which takes fewer forms of rows.
    """

    registered: str
    make: Callable[[], Any]
    family: str = "classifier"
    exact: bool = False
    savable: bool = True
    d: int = 3
    foreign: bool = False


def name_of(cls):
    return next(name for name, registered in CLASSES.items() if registered is cls)


def with_gamma(case, kernel):
    """Return a function that makes a model with a number for `gamma`: "scale" depends on the first batch."""
    fixed = {} if "gamma" in KERNELS[kernel][1] else {"gamma": 0.5}
    return partial(case.model, kernel, **fixed)


def kernelized():
    others = cycle(OTHER_KERNELS)
    for label, case in CASES.items():
        small = with_budget(case, 4) or with_budget(case, 6) or case
        registered = name_of(case.learner)
        yield label, Variant(registered, small.model)
        kernel = "linear" if label in WHOLE_KERNELIZED else next(others)
        yield (
            f"{label}, {kernel}",
            Variant(
                registered,
                with_gamma(small, kernel),
                exact=label in WHOLE_KERNELIZED,
                savable=kernel != "callable",
            ),
        )
    for label in ("forgetron self-tuned", "projectron budget", "second order", "voted"):
        case = with_budget(CASES[label], 4) or CASES[label]
        yield f"{label}, wide", Variant(name_of(case.learner), case.model, d=WIDE)
    yield (
        "voted majority",
        Variant(
            "VotedKernelPerceptron",
            partial(budgetron.VotedKernelPerceptron, "majority", kernel="linear", gamma=0.5),
            exact=True,
        ),
    )
    yield (
        "second order with linear part",
        Variant("SecondOrderProjectron", lambda: budgetron.SecondOrderProjectron(4, gamma=0.5)),
    )
    yield (
        "pa-i, class_weight",
        Variant(
            "PassiveAggressive",
            lambda: budgetron.PassiveAggressive(C=0.6, gamma=0.5, budget=4, class_weight={1: 0.3}),
        ),
    )


def linear_learners():
    for label, (cls, _, parameters) in LINEAR.items():
        make = partial(cls, **parameters)
        yield f"linear {label}", Variant(name_of(cls), make, exact=label in WHOLE_LINEAR)
    for label in ("perceptron", "arow diagonal"):
        cls, _, parameters = LINEAR[label]
        yield f"linear {label}, wide", Variant(name_of(cls), partial(cls, **parameters), d=WIDE)
    majority = partial(linear.VotedPerceptron, "majority")
    yield "linear voted majority", Variant("linear.VotedPerceptron", majority, exact=True)
    for loss, covariance in (("logistic", "full"), ("squared", "diagonal")):
        make = partial(linear.AROW, 0.7, covariance, loss, forget=0.9, class_weight={1: 0.3})
        yield f"linear.AROW, {loss}, {covariance}, forget", Variant("linear.AROW", make)
    for cls in (linear.PassiveAggressive, linear.OnlineSVM):
        name = name_of(cls)
        yield f"{name}, class_weight", Variant(name, partial(cls, C=0.5, class_weight={1: 0.3}))


def other_learners():
    """Yield the registered learners for which the tests have no case, such as new ones."""
    known = {case.learner for case in CASES.values()} | {cls for cls, *_ in LINEAR.values()}
    small = {"budget": 4, "gamma": 0.5, "random_state": 1}
    for cls in [*budgetron.learners(), *linear.learners()]:
        if cls not in known:
            parameters = {name: small[name] for name in small if name in cls.parameter_names()}
            yield name_of(cls), Variant(name_of(cls), partial(cls, **parameters))


def wrappers():
    forgetron = budgetron.Forgetron(4, gamma=0.5)
    inner = {
        CalibratedClassifier: [
            forgetron,
            linear.AROW(covariance="diagonal"),
            budgetron.BudgetClassifier("150kB", 0),
        ],
        ConformalClassifier: [
            forgetron,
            linear.AROW(covariance="diagonal"),
            budgetron.BudgetClassifier("150kB", 0),
        ],
        AveragedClassifier: [forgetron, budgetron.Projectron(0.4, gamma=0.5), linear.OnlineSVM(eta=0.9)],
        PenalizedRiskClassifier: [
            budgetron.RemoveOldestPerceptron(4, gamma=0.5),
            budgetron.Projectron(0.4, gamma=0.5),
            linear.Winnow(eta=0.4, balanced=True),
        ],
    }
    for wrapper, learners in inner.items():
        for learner in learners:
            name = f"{wrapper.__name__} of {type(learner).__name__}"
            yield name, Variant(name_of(wrapper), partial(wrapper_of, wrapper, learner))
    yield (
        "averaged, wide",
        Variant("batch.AveragedClassifier", partial(AveragedClassifier, forgetron), d=WIDE),
    )
    own = [budgetron.Stoptron(4, gamma=0.5), linear.AROW(), AveragedClassifier(linear.Perceptron())]
    for combine in ("exponential", "majority", "randomized"):
        yield (
            f"experts, {combine}",
            Variant(
                "experts.ExpertClassifier",
                partial(experts_of, own, combine, random_state=1),
            ),
        )
    foreign = [linear.Perceptron(), SGDClassifier(random_state=0)]
    yield (
        "experts, a learner of scikit-learn",
        Variant("experts.ExpertClassifier", partial(experts_of, foreign), savable=False, foreign=True),
    )


def wrapper_of(wrapper, learner):
    return wrapper(clone(learner))


def experts_of(learners, *arguments, **parameters):
    return experts.ExpertClassifier([clone(learner) for learner in learners], *arguments, **parameters)


def budget_classifiers():
    make = partial(budgetron.BudgetClassifier, random_state=0)
    yield "BudgetClassifier", Variant("BudgetClassifier", partial(make, "150kB"))
    yield "BudgetClassifier, wide", Variant("BudgetClassifier", partial(make, "400kB"), d=WIDE)


def algorithms():
    for cls, parameters in [
        (experts.Halving, {}),
        (experts.WeightedMajority, {"beta": 0.3}),
        (experts.RandomizedWeightedMajority, {"random_state": 1}),
        (experts.ExponentialWeights, {}),
        (experts.ExponentialWeights, {"eta": "doubling", "loss": "squared"}),
        (experts.ExponentialWeights, {"eta": 0.3}),
        (experts.FixedShare, {}),
        (experts.FixedShare, {"eta": 0.7, "alpha": 0.2, "loss": "squared"}),
        (experts.Prod, {"loss": "squared"}),
        (experts.Prod, {"beta": "doubling"}),
        (experts.RandomizedWeightedMajority, {"beta": "doubling", "random_state": 1}),
        (experts.PolynomialWeights, {}),
    ]:
        arguments = ", ".join(map(str, parameters.values()))
        yield f"{cls.__name__}({arguments})", Variant(name_of(cls), partial(cls, **parameters), "algorithm")


def adapters():
    small = {"budget": 4, "memory": "150kB", "seed": 1, "gamma": 0.5}
    for name, cls in river.adapters().items():
        parameters = {key: small[key] for key in small if key in cls.parameter_names()}
        if "learner" in cls.parameter_names():  # copied by the adapter, so that models do not share it
            of_numbers = issubclass(cls, river.RiverRegressor)
            parameters["learner"] = (
                river.KernelPARegressor(4) if of_numbers else river.Forgetron(4, gamma=0.5)
            )
        family = "regressor" if issubclass(cls, river.RiverRegressor) else "adapter"
        family = "detector" if issubclass(cls, river.RiverDetector) else family
        yield name, Variant(name, partial(cls, **parameters), family)
    yield (
        "river.Forgetron, at most three features",
        Variant("river.Forgetron", partial(river.Forgetron, 4, gamma=0.5, max_features=3), "adapter"),
    )


def regressors():
    small = {"budget": 4, "gamma": 0.5, "memory": "150kB"}
    for cls in [*budgetron.regressors(), *linear.regressors(), budgetron.BudgetRegressor]:
        parameters = {name: small[name] for name in small if name in cls.parameter_names()}
        yield name_of(cls), Variant(name_of(cls), partial(cls, **parameters), "regressor")
    for label, make in {
        "second order, forget": partial(budgetron.SecondOrderRegressor, 4, gamma=0.5, forget=0.9),
        "second order, poly": partial(
            budgetron.SecondOrderRegressor, 4, kernel="poly", gamma=0.5, linear=False
        ),
        "AROW, vaw": partial(linear.AROWRegressor, variant="vaw"),
        "AROW, diagonal, forget": partial(linear.AROWRegressor, 1.0, "diagonal", forget=0.9),
        "PA-II, no intercept": partial(linear.PARegressor, 1.0, "PA-II", fit_intercept=False),
        "kernel PA without a budget": partial(budgetron.KernelPARegressor, gamma=0.5),
    }.items():
        yield f"regressor {label}", Variant(name_of(make.func), make, "regressor")
    for learner in (
        budgetron.SecondOrderRegressor(4, gamma=0.5),
        linear.PARegressor(),
        budgetron.BudgetRegressor("150kB"),
    ):
        name = f"ConformalRegressor of {type(learner).__name__}"
        yield (
            name,
            Variant("ConformalRegressor", partial(wrapper_of, ConformalRegressor, learner), "regressor"),
        )
    wide = partial(budgetron.SecondOrderRegressor, 4, gamma=0.5)
    yield "regressor, wide", Variant("SecondOrderRegressor", wide, "regressor", d=WIDE)


def detectors():
    for cls in budgetron.detectors():
        yield name_of(cls), Variant(name_of(cls), partial(cls, 4, gamma=0.5), "detector")
    often = partial(budgetron.SecondOrderDetector, 4, gamma=0.5, forget=0.9, false_alarm_rate=0.3)
    yield "detector, forget", Variant("SecondOrderDetector", often, "detector")
    poly = partial(budgetron.NormaDetector, 4, 0.3, kernel="poly", gamma=0.5, false_alarm_rate=0.3)
    yield "detector, poly", Variant("NormaDetector", poly, "detector")
    wide = partial(budgetron.NormaDetector, 4, gamma=0.5)
    yield "detector, wide", Variant("NormaDetector", wide, "detector", d=WIDE)


def fleets():
    learners = [
        budgetron.KernelPerceptron(gamma=0.5),
        budgetron.RemoveOldestPerceptron(3, kernel="poly", gamma=0.5),
        budgetron.Forgetron(4, gamma=0.5),
        budgetron.RandomizedBudgetPerceptron(3, gamma=0.5, random_state=1),
        linear.Perceptron(),
        linear.PassiveAggressive(C=0.6, class_weight={1: 0.3}),
        linear.AROW(),
        linear.AROW(covariance="diagonal", forget=0.9),
    ]
    for learner in learners:
        yield f"fleet of {learner}", Variant("fleet.Fleet", partial(fleet_of, learner), "fleet")
    enough = partial(fleet_of, budgetron.Forgetron(4, gamma=0.5), memory="1MB", idle=10**6)
    yield "fleet with enough memory", Variant("fleet.Fleet", enough, "fleet")


def fleet_of(learner, **parameters):
    return Fleet(clone(learner), **parameters)


VARIANTS: dict[str, Variant] = {
    **dict(kernelized()),
    **dict(linear_learners()),
    **dict(other_learners()),
    **dict(wrappers()),
    **dict(budget_classifiers()),
    **dict(algorithms()),
    **dict(adapters()),
    **dict(fleets()),
    **dict(regressors()),
    **dict(detectors()),
}


def registered_names():
    """Return the names of all classes that must have a variant."""
    return {*CLASSES, *river.adapters()}


def fitted(name, n=40, classes=2):
    """Return a small fitted model of a variant."""
    variant, rng = VARIANTS[name], np.random.default_rng(0)
    model = variant.make()
    if variant.family == "algorithm":
        model.play(rng.integers(2, size=(n, 4)), rng.integers(2, size=n))
        return model
    X = np.zeros((n, variant.d))
    X[:, rows_in_use(variant.d)] = rng.normal(size=(n, len(rows_in_use(variant.d)))).round(3)
    y = rng.integers(classes, size=n)
    if variant.family == "adapter":
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            model.learn_one(dict(zip("abc", row, strict=True)), label)
        return model
    if variant.family == "regressor":
        if isinstance(model, river.RiverRegressor):
            for row, target in zip(X.tolist(), X[:, 0].tolist(), strict=True):
                model.learn_one(dict(zip("abc", row, strict=True)), target)
            return model
        return model.fit(csr_array(X) if variant.d == WIDE else X, X[:, 0])
    if variant.family == "detector":
        if isinstance(model, river.RiverDetector):
            for row in X.tolist():
                model.learn_one(dict(zip("abc", row, strict=True)))
            return model
        return model.fit(csr_array(X) if variant.d == WIDE else X)
    if variant.family == "fleet":
        return model.partial_fit(rng.integers(4, size=n), X, y, classes=[0, 1])
    return model.fit(csr_array(X) if variant.d == WIDE else X, y)


def rows_in_use(d):
    """Return the features of rows of d features that may be other than 0."""
    return [0, d // 2, d - 1]
