"""Certificates of learners with more than two classes: a competitor for each class."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.theorems import ClassesTheorem, FunctionTheorem, Run
from budgetron._certify.best import find_best_competitor
from budgetron._certify.certificate import Certificate, refuse_failed
from budgetron._certify.competitors import expansions_of, set_competitors
from budgetron.bounds import THEOREMS, Assumption

__all__ = ["classes_certificate"]


def classes_certificate(
    model: OnlineClassifier,
    run: Run,
    theorem: ClassesTheorem,
    competitor: object,
    check: bool,
    verbose: bool,
) -> Certificate:
    """Compare a learner with the best competitor of each class, or with given ones."""
    if isinstance(competitor, list) or (isinstance(competitor, str) and competitor != "best"):
        raise ValueError(
            'competitor must be "best", a model of the same classes, or (rows, coefficients) with a row of '
            f"coefficients for each class; got {competitor!r}"
        )
    n = len(model.classes_)
    parts = [replace(run, y=np.where(run.y == c, 1.0, -1.0)) for c in range(n)]
    if isinstance(competitor, str):
        search = FunctionTheorem(theorem.name, theorem.bound, theorem.norm_weight)
        for part in parts:
            find_best_competitor(part, search, verbose)
        run.competitor = "the best of each class, SVMs without intercept"
    else:
        given = expansions_of(competitor, run.kernel, run.X.shape[1], n)
        for part, expansion in zip(parts, given, strict=True):
            set_competitors(part, [(0, expansion)])
        run.competitor = given[0].name
    run.norm = sqrt(sum(part.norm**2 for part in parts))
    run.margins = np.concatenate([part.margins for part in parts])
    assumptions: list[Assumption] = []
    bound, entry = theorem.bound(run, assumptions), THEOREMS[theorem.name]
    if check:
        refuse_failed(assumptions, entry.source)
    return Certificate(
        learner=repr(model),
        theorem=entry.source,
        quantity=entry.quantity,
        count=int(run.trace.mistakes.sum()),
        bound=bound,
        competitor=run.competitor,
        norm=run.norm,
        losses=run.losses,
        shift=0.0,
        rounds=len(run.trace),
        assumptions=assumptions,
    )
