"""The scores of a portfolio's experts and their combination, in a form that is accurate in float32."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from budgetron._core.kernel import Kernel
from budgetron._util.types import Floats, Ints
from budgetron.export._scores import Combined, Expansion, ExpertScores, Scaling, Scores, Vector, single
from budgetron.portfolio._frozen import FrozenExpert, FrozenPortfolio
from budgetron.portfolio._views import Scaler

__all__ = ["combined_scores"]

# The relative rounding error of float32, and its smallest number with all digits.
ROUNDING, SMALLEST = 2.0**-24, float(np.finfo(np.float32).tiny)
# Kernel values whose exponent is below these numbers are 0: those below 2^-126.5 and 2^-1022.5, because
# `_core/simd_loops.h` rounds the exponent of 2, and has no numbers below 2^-126 and 2^-1022.
LOWEST = {"float32": -126.5 * np.log(2.0), "float64": -1022.5 * np.log(2.0)}


def combined_scores(portfolio: FrozenPortfolio) -> Combined:
    """Return the numbers from which a file computes the margins of a portfolio."""
    scaling = None if portfolio.scaler is None else _scaling(portfolio.scaler)
    experts = portfolio.experts
    if scaling is not None:
        experts = [e if e.standardised else _shifted(e, scaling.high) for e in experts]
    return Combined(
        outputs=portfolio.outputs,
        features=portfolio.features,
        scaling=scaling,
        experts=_expert_scores(portfolio, experts),
        weights=portfolio.weights,
        constants=portfolio.constants,
        shares=portfolio.shares,
        blend=portfolio.blend,
    )


def _scaling(scaler: Scaler) -> Scaling:
    """Return the scaling of `_core.scaling`: by the mean and the deviation of n rows and the new row itself.

    With s = 1 / (n + 1) and delta = x - mean, the new mean is mean + s delta, and the new variance is
    s (spread + (1 - s) delta^2). So the standardised value is (1 - s) u / sqrt(1 + s (1 - s) u^2), where
    u = delta / deviation and deviation^2 = s spread.
    """
    share = 1.0 / (scaler.count + 1)
    deviation = np.sqrt(scaler.spread * share)
    high: Vector = single(scaler.mean, "means").astype(np.float64)
    # Values of a feature that was constant, up to the rounding of float32, are equal in float32.
    low = np.where(deviation > ROUNDING * np.abs(scaler.mean), scaler.mean - high, 0.0)
    return Scaling(high, low, np.maximum(deviation, SMALLEST), 1.0 - share, share * (1.0 - share))


def _shifted(expert: FrozenExpert, origin: Vector) -> FrozenExpert:
    """Return an expert with the same scores that sees rows minus `origin`."""
    supports, constants = expert.supports - origin, expert.constants
    if expert.slopes is not None:
        constants = expert.slopes @ origin + (0.0 if constants is None else constants)
    return replace(expert, supports=supports, constants=constants)


def _expert_scores(portfolio: FrozenPortfolio, experts: list[FrozenExpert]) -> list[ExpertScores]:
    unions: dict[object, _Union] = {}
    for expert in experts:
        unions.setdefault(_view(expert), _Union()).add(expert.supports)
    found = []
    for expert in experts:
        expansion = None
        if len(expert.supports):
            expansion = _expansion(expert, unions[_view(expert)], LOWEST[portfolio.dtype.name])
        slopes = expert.slopes
        if expansion is None and slopes is None:  # all scores are 0
            slopes = np.zeros((portfolio.outputs, portfolio.features))
        scores = Scores(portfolio.outputs, portfolio.features, expansion, slopes, expert.constants)
        scales = expert.scales if len(expert.scales) else None
        found.append(ExpertScores(expert.standardised, scales, scores))
    return found


def _view(expert: FrozenExpert) -> object:
    """Return what identifies the form in which an expert sees rows."""
    return expert.standardised, expert.scales.tobytes()


class _Union:
    """The different supports of all experts that see rows in the same form, each once."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._rows: list[Floats] = []

    def add(self, rows: Floats) -> None:
        for row in rows:
            if self._places.setdefault(row.tobytes(), len(self._rows)) == len(self._rows):
                self._rows.append(row)

    @cached_property
    def rows(self) -> Floats:
        return np.array(self._rows)

    def places(self, rows: Floats) -> Ints:
        return np.array([self._places[row.tobytes()] for row in rows], np.int64)


def _expansion(expert: FrozenExpert, union: _Union, lowest: float) -> Expansion:
    """Return the sums of an expert over supports of the union. Coefficients of equal supports are added."""
    places = union.places(expert.supports)
    slots, inverse = np.unique(places, return_inverse=True)
    coef = np.zeros((len(slots), len(expert.coef)))
    np.add.at(coef, inverse, expert.coef.T)
    own = None if len(slots) == len(union.rows) else slots
    # Beside a linear part, very small values do not matter.
    least = lowest if expert.slopes is None else None
    return Expansion(Kernel("rbf", expert.gamma), union.rows, coef.T, own, least)
