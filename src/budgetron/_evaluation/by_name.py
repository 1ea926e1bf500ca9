"""Learners by name, as typed: `forgetron`, `forgetron:budget=200,variant=greedy`, `linear.arow`.

A short name means a classifier or a regressor, depending on the task: `arow` is `linear.AROW` for classes,
and `linear.AROWRegressor` for numbers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from math import log, sqrt
from typing import Any, TypeAlias

from numpy.typing import NDArray

from budgetron import linear
from budgetron.streams import Encoder

__all__ = [
    "DEFAULTS",
    "PREDICTS",
    "REGRESSION_DEFAULTS",
    "Learner",
    "Learners",
    "WrongTaskError",
    "choose_learner",
    "has_class_weight",
    "learners_of",
    "names",
    "only_numbers",
    "parsed_class_weight",
    "scales_rows",
    "set_class_weight",
    "with_memory",
]

# Any classifier or regressor with partial_fit and predict.
Learner: TypeAlias = Any
Learners: TypeAlias = dict[str, Learner]
Parameter: TypeAlias = bool | int | float | str | None

# The learners of `compare` if none are given: the one with nothing to tune, the one that is often nearly as
# good in less time, budget learners of every kind, and linear learners as a baseline.
DEFAULTS = (
    "budgetclassifier",
    "secondorderprojectron",
    "forgetron",
    "randomizedbudgetperceptron",
    "removeoldestperceptron",
    "projectron",
    "projectronplusplus",
    "linear.passiveaggressive",
    "linear.arow",
)

REGRESSION_DEFAULTS = (
    "budgetregressor",
    "secondorderregressor",
    "kernelparegressor",
    "normaregressor",
    "linear.arowregressor",
    "linear.paregressor",
)

# What a task predicts, in words
PREDICTS = {"classification": "classes", "regression": "numbers"}

ALIASES = {
    "budget": "budgetclassifier",
    "perceptron": "kernelperceptron",
    "rbp": "randomizedbudgetperceptron",
    "removeoldest": "removeoldestperceptron",
    "shrinking": "shrinkingperceptron",
    "cks": "cksperceptron",
    "projectron++": "projectronplusplus",
    "secondorder": "secondorderprojectron",
    "pa": "passiveaggressive",
    "linear.pa": "linear.passiveaggressive",
    "arow": "linear.arow",
    "winnow": "linear.winnow",
    "onlinesvm": "linear.onlinesvm",
}

REGRESSION_ALIASES = {
    "budget": "budgetregressor",
    "secondorder": "secondorderregressor",
    "pa": "kernelparegressor",
    "kernelpa": "kernelparegressor",
    "norma": "normaregressor",
    "arow": "linear.arowregressor",
    "arowregressor": "linear.arowregressor",
    "linear.arow": "linear.arowregressor",
    "linear.pa": "linear.paregressor",
}
ALL_ALIASES = {"classification": ALIASES, "regression": REGRESSION_ALIASES}


class WrongTaskError(ValueError):
    """A learner that predicts something else than the target has."""


def names(task: str = "classification") -> dict[str, type]:
    """Return every learner of a task by its name on the command line."""
    from budgetron import kernelized, portfolio  # take long to import, and linear learners do not need them

    if task == "regression":
        others: list[type] = [*kernelized.regressors(), portfolio.BudgetRegressor]
    else:
        others = [*kernelized.learners(), portfolio.BudgetClassifier]
    return {cls.__name__.lower(): cls for cls in others} | _linear_names(task)


def _linear_names(task: str) -> dict[str, type]:
    """Return every linear learner of a task by its name."""
    classes: list[type] = [*(linear.regressors() if task == "regression" else linear.learners())]
    return {f"linear.{cls.__name__.lower()}": cls for cls in classes}


def scales_rows(learner: Learner) -> bool:
    """Return whether the learner scales rows itself, and so must get them unscaled."""
    inner = getattr(learner, "learner", learner)  # of a wrapper
    portfolio = sys.modules.get("budgetron.portfolio")  # if it is not imported, this is another learner
    return portfolio is not None and isinstance(inner, portfolio.BudgetClassifier | portfolio.BudgetRegressor)


def only_numbers(encoder: Encoder) -> bool:
    """Return whether all columns that are used are numbers.

    A learner that scales rows itself gets unscaled rows only then. With categories, dates or text it gets
    numbers scaled by the encoder, so that they are comparable with features that are 0 or 1.
    """
    return all(column.kind in ("number", "none") for column in encoder.columns)


def has_class_weight(learner: Learner) -> bool:
    """Return whether the losses of classes can be weighted."""
    return "class_weight" in learner.get_params(deep=False)


def parsed_class_weight(text: str, classes: NDArray[Any]) -> dict[object, float]:
    """Return the weights of classes, written as label=weight, separated by commas."""
    labels = {str(label): label for label in classes.tolist()}
    weights: dict[object, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        label, _, weight = item.rpartition("=")
        if label not in labels:
            known = ", ".join(labels)
            raise ValueError(f"--class-weight: weights are given as label=weight for {known}; got {item!r}")
        try:
            weights[labels[label]] = float(weight)
        except ValueError:
            raise ValueError(f"--class-weight: {weight!r} in {item!r} is not a number") from None
    return weights


def set_class_weight(learners: Learners, text: str, classes: NDArray[Any]) -> None:
    """Set the weights of classes, written as label=weight, separated by commas."""
    weights = parsed_class_weight(text, classes)
    for learner in learners.values():
        if not has_class_weight(learner):
            raise ValueError(
                f"--class-weight: {type(learner).__name__} has no class weights; use budget, secondorder, "
                "pa, arow, linear.pa or onlinesvm"
            )
        learner.set_params(class_weight=weights)


def choose_learner(
    learner: str | None, memory: str | None, kernel_options: bool, task: str = "classification"
) -> str:
    """Return the name of the learner of `run`, with its memory limit."""
    if learner is None:
        kernel_learner = "forgetron" if task == "classification" else "secondorder"
        learner = kernel_learner if kernel_options and memory is None else "budget"
    if _is_budget(learner) and kernel_options:
        raise ValueError(
            "the learner budget has --memory, but not --budget, --gamma or --average; leave these out, or "
            "choose another learner"
        )
    if memory is not None and not _is_budget(learner):
        raise ValueError(f"--memory is for the learner budget; {learner} has --budget instead")
    return with_memory(learner, memory)


def with_memory(learner: str, memory: str | None) -> str:
    """Return the learner's name with the memory limit, if it is a learner that has one."""
    if memory is None or not _is_budget(learner):
        return learner
    if "memory" in _parameters(learner.partition(":")[2]):
        raise ValueError(f"memory is given twice: by --memory {memory} and by {learner}")
    return f"{learner}{',' if ':' in learner else ':'}memory={memory}"


def learners_of(
    specs: Sequence[str],
    budgets: Sequence[int],
    gammas: Sequence[str],
    seed: int,
    task: str = "classification",
) -> list[Learner]:
    """Return a learner for each name, and for each budget and width if it has those parameters.

    All are classifiers, or if the `task` is "regression", regressors. A parameter that is given with the
    name, as in `forgetron:budget=50`, is not varied.
    """
    return [
        model
        for spec in specs
        for model in _variants(*_parse(spec, task), budgets=budgets, gammas=gammas, seed=seed)
    ]


def _is_budget(learner: str) -> bool:
    return _key(learner.partition(":")[0], ALIASES) in ("budgetclassifier", "budgetregressor")


def _variants(
    cls: type[Learner],
    given: dict[str, Parameter],
    *,
    budgets: Sequence[int],
    gammas: Sequence[str],
    seed: int,
) -> Iterator[Learner]:
    known = cls().get_params(deep=False)
    unknown = [name for name in given if name not in known]
    if unknown:
        parameters = ", ".join(known)
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0]}; it has {parameters}")
    tried: Sequence[int | None] = budgets if "budget" in known and "budget" not in given else [None]
    widths: Sequence[str | None] = gammas if "gamma" in known and "gamma" not in given else [None]
    for budget, gamma in product(tried, widths):
        params = dict(given)
        if budget is not None:
            params["budget"] = budget
        if gamma is not None:
            params["gamma"] = _value(gamma)
        if "random_state" in known:
            params.setdefault("random_state", seed)
        if "fit_intercept" in known:
            params.setdefault("fit_intercept", False)  # streams of the command line have a column of ones
        if "norm_bound" in known and not {"norm_bound", "eta"} & given.keys():
            # U of the Forgetron's theorem for a budget of that size, as in the experiments of its paper.
            size = params.get("budget")
            size = max(3, size if isinstance(size, int) and size else 100)
            params["norm_bound"] = round(max(1.0, 0.25 * sqrt((size + 1) / log(size + 1))), 4)
        yield cls(**params)


def _key(name: str, aliases: Mapping[str, str]) -> str:
    key = name.strip().lower().replace("-", "").replace("_", "")
    return aliases.get(key, key)


def _parse(spec: str, task: str) -> tuple[type[Learner], dict[str, Parameter]]:
    name, _, rest = spec.partition(":")
    key, known = _key(name, ALL_ALIASES[task]), _linear_names(task)
    if key not in known:
        known = names(task)
    if key in known:
        return known[key], _parameters(rest)
    listed = ", ".join(sorted(known))
    other = "regression" if task == "classification" else "classification"
    if _key(name, ALL_ALIASES[other]) in names(other):
        raise WrongTaskError(
            f"{name} predicts {PREDICTS[other]}, but the target has {PREDICTS[task]}; the learners of "
            f"{PREDICTS[task]} are {listed}; or give --task {other}"
        )
    near = get_close_matches(key, [*known, *ALL_ALIASES[task]], 1)
    hint = f"did you mean {near[0]}?" if near else f"the learners are {listed}"
    raise ValueError(f"there is no learner {name!r}; {hint}")


def _parameters(text: str) -> dict[str, Parameter]:
    params = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        parameter, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"parameters are given as name=value, as in forgetron:budget=200; got {item!r}")
        params[parameter.strip()] = _value(value.strip())
    return params


def _value(text: str) -> Parameter:
    """Return a number, True, False or None if the text is one, and the text itself otherwise."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):  # the last two: nested very deeply
        return text
    return value if isinstance(value, (int, float, bool, type(None), str)) else text
