"""The search for the competitor with the smallest bound."""

from __future__ import annotations

from math import inf

import numpy as np

from budgetron._base.theorems import FunctionTheorem, Run
from budgetron._certify.competitors import Expansion, set_competitors
from budgetron._certify.svm import Dual

__all__ = ["find_best_competitor"]

# C for bounds that only limit the norm, and for separable rows (divided by the squared radius).
LARGE_C, HARD_MARGIN_C = 1e3, 1e4


def find_best_competitor(run: Run, theorem: FunctionTheorem, verbose: bool) -> None:
    """Store the competitor with the smallest bound in the run, or one that is nearly as good.

    If the bound is norm_weight ||g||^2 + losses, up to a factor, the best competitor is an SVM without
    intercept, or if the learner has one, with an intercept that is a part of ||g||. Otherwise SVMs with
    several values of C are compared.
    """
    dual = Dual(run.kernel, run.X, run.y)
    if theorem.norm_weight is not None:
        # The SVM minimizes 1/2 ||g||^2 + C losses.
        C = 1 / (2 * theorem.norm_weight) if theorem.norm_weight > 0 else LARGE_C
        dual.within(C, theorem.norm_limit, verbose=verbose)
        set_competitors(run, [(0, _solution(dual, run, theorem.norm_limit))])
    elif theorem.separates:
        dual.solve(HARD_MARGIN_C / run.radius**2, 1e-6, verbose=verbose)
        set_competitors(run, [(0, _solution(dual, run, inf))])
    else:
        _try_several(dual, run, theorem, verbose)


def _try_several(dual: Dual, run: Run, theorem: FunctionTheorem, verbose: bool) -> None:
    """Store the best of several SVMs: over a wide grid of C first, then near the best of these."""
    tried: list[tuple[float, float, Expansion]] = []

    def attempt(C: float) -> None:
        dual.solve(C, 1e-2, verbose=verbose)
        g = _solution(dual, run, inf)
        set_competitors(run, [(0, g)])
        bound = theorem.bound(run, False)
        tried.append((bound if bound > 0 else inf, C, g))

    for C in np.geomspace(1e-3, 1e2, 11):
        attempt(float(C))
    _, best, _ = min(tried, key=lambda one: one[0])
    for C in np.geomspace(best / 2.5, best * 2.5, 6):
        attempt(float(C))
    _, _, g = min(tried, key=lambda one: one[0])
    set_competitors(run, [(0, g)])


def _solution(dual: Dual, run: Run, limit: float) -> Expansion:
    """Return the solution in float64, scaled to the limit of the norm if it exceeds it."""
    alpha = dual.alpha
    used = np.flatnonzero(alpha) if np.any(alpha) else np.array([0])
    name = f"the best, an SVM with{' a penalized' if run.intercept else 'out'} intercept"
    g = Expansion(run.kernel, run.X[used], alpha[used] * run.y[used], name)
    norm = g.norm()
    return g if norm <= limit else Expansion(run.kernel, g.rows, g.coef * (limit / norm), name)
