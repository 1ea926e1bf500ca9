"""Learners by name, as one types them: `forgetron`, `forgetron:budget=200,variant=greedy`, `linear.arow`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import product
from math import log, sqrt
from typing import Any

from budgetron import kernelized, linear
from budgetron.portfolio import BudgetClassifier

__all__ = ["DEFAULTS", "learners_of", "names"]

# What `compare` takes if nothing is said: the one that needs no choice, budget learners of every kind, and
# linear ones to beat.
DEFAULTS = (
    "budgetclassifier",
    "forgetron",
    "randomizedbudgetperceptron",
    "removeoldestperceptron",
    "projectron",
    "projectronplusplus",
    "linear.passiveaggressive",
    "linear.arow",
)

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


def names() -> dict[str, type]:
    """Every learner by the name that the command line knows it by."""
    kernel: dict[str, type] = {cls.__name__.lower(): cls for cls in kernelized.learners()}
    kernel["budgetclassifier"] = BudgetClassifier
    return kernel | {f"linear.{cls.__name__.lower()}": cls for cls in linear.learners()}


def learners_of(specs: Sequence[str], budgets: Sequence[int], gammas: Sequence[str], seed: int) -> list[Any]:
    """A learner for each name, and for each budget and width if it has those parameters.

    What a name says itself, as in `forgetron:budget=50`, is not varied.
    """
    return [
        model
        for spec in specs
        for model in _variants(*_parse(spec), budgets=budgets, gammas=gammas, seed=seed)
    ]


def _variants(
    cls: type, said: dict[str, Any], *, budgets: Sequence[int], gammas: Sequence[str], seed: int
) -> Iterable[Any]:
    known = cls().get_params(deep=False)
    unknown = [name for name in said if name not in known]
    if unknown:
        parameters = ", ".join(known)
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0]}; it has {parameters}")
    tried: Sequence[int | None] = budgets if "budget" in known and "budget" not in said else [None]
    widths: Sequence[str | None] = gammas if "gamma" in known and "gamma" not in said else [None]
    for budget, gamma in product(tried, widths):
        params = dict(said)
        if budget is not None:
            params["budget"] = budget
        if gamma is not None:
            params["gamma"] = _value(gamma)
        if "random_state" in known:
            params.setdefault("random_state", seed)
        if "norm_bound" in known and not {"norm_bound", "eta"} & said.keys():
            # U of the Forgetron's theorem, as in 002's experiments; what fits a budget of that size.
            size = max(3, params.get("budget") or 100)
            params["norm_bound"] = round(max(1.0, 0.25 * sqrt((size + 1) / log(size + 1))), 4)
        yield cls(**params)


def _parse(spec: str) -> tuple[type, dict[str, Any]]:
    name, _, rest = spec.partition(":")
    key = name.strip().lower().replace("-", "").replace("_", "")
    key = ALIASES.get(key, key)
    known = names()
    if key not in known:
        near = get_close_matches(key, [*known, *ALIASES], 1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
        raise ValueError(f"there is no learner {name!r}; {meant}")
    params = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        parameter, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"parameters are given as name=value, as in forgetron:budget=200; got {item!r}")
        params[parameter.strip()] = _value(value.strip())
    return known[key], params


def _value(text: str) -> Any:
    """A number, True, False or None if it reads like one; text otherwise."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, (int, float, bool, type(None), str)) else text
