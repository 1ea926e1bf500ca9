"""How a regressor declares its theorems, and the theorems of the linear regressors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from budgetron import bounds
from budgetron._util.types import Floats
from budgetron.bounds import Check, assume

__all__ = ["RegressionRun", "RegressionTheorem", "pa_theorems", "vaw_theorem"]

# Factors of the norm with which competitors are searched for, if a bound is no sum of norm and losses.
FACTORS = 10.0 ** np.arange(-3.0, 5.0)


@dataclass(frozen=True)
class RegressionRun:
    """A stream of a linear regressor: its rows, with the constant if it has an intercept, and its targets."""

    X: Floats
    y: Floats

    @property
    def radius(self) -> float:
        """The largest norm of a row."""
        return sqrt(float(np.einsum("ij,ij->i", self.X, self.X).max()))

    @property
    def inverse_squares(self) -> Floats:
        """1 / ||x||^2 of each row; 0 for rows of zeros."""
        squares = np.einsum("ij,ij->i", self.X, self.X)
        inverse: Floats = np.divide(1.0, squares, out=np.zeros(len(squares)), where=squares > 0.0)
        return inverse


@dataclass(frozen=True)
class RegressionTheorem:
    """A theorem that holds for every weight vector u.

    Parameters
    ----------
    name : str
        Its name in `bounds.THEOREMS`.
    loss : callable
        Takes a run and residuals. Returns the loss of each round. The sum of those of the learner is bounded,
        and the losses of u are measured by it.
    bound : callable
        Takes a run, the norm of u, the sum of its losses, and a list to append the assumptions to.
    best : callable
        Returns the u with the smallest bound on a run, or one nearly as good.
    """

    name: str
    loss: Callable[[RegressionRun, Floats], Floats]
    bound: Callable[[RegressionRun, float, float, Check], float]
    best: Callable[[RegressionRun], Floats]


def vaw_theorem(r: float, prior: float, forget: float, full: bool) -> RegressionTheorem:
    """Return the theorem of Vovk, Azoury and Warmuth; `full` says whether the covariance is full."""
    penalty = r / prior

    def bound(run: RegressionRun, norm: float, losses: float, check: Check) -> float:
        assume(check, full, "a full covariance (1 if it is)", float(full))
        assume(check, forget == 1.0, "forget = 1", forget)
        d = run.X.shape[1]
        determinant = float(np.linalg.slogdet(np.eye(d) + run.X.T @ run.X / penalty)[1])
        largest = float(np.abs(run.y).max())
        return bounds.vovk_azoury_warmuth(losses, norm, largest, determinant, penalty, check=check)

    def loss(run: RegressionRun, residuals: Floats) -> Floats:
        return np.square(residuals)

    return RegressionTheorem("vovk_azoury_warmuth", loss, bound, lambda run: _ridge(run, penalty))


def pa_theorems(variant: str, epsilon: float, C: float) -> list[RegressionTheorem]:
    """Return the theorems of Passive-Aggressive regression."""

    def beyond(residuals: Floats) -> Floats:
        losses: Floats = np.maximum(np.abs(residuals) - epsilon, 0.0)
        return losses**2

    def loss(run: RegressionRun, residuals: Floats) -> Floats:
        return beyond(residuals) * (run.inverse_squares if variant == "PA" else 1.0)

    def plain(run: RegressionRun, norm: float, losses: float, check: Check) -> float:
        return bounds.pa_regression(norm, losses, check=check)

    def limited(run: RegressionRun, norm: float, losses: float, check: Check) -> float:
        return bounds.pa_ii_regression(norm, losses, run.radius, C, check=check)

    def best_plain(run: RegressionRun) -> Floats:
        # The bound is smallest for some minimizer of norm^2 + factor losses.
        found = [_smallest(run, epsilon, factor * run.inverse_squares) for factor in FACTORS]
        found.append(np.zeros(run.X.shape[1]))
        losses = [float(loss(run, run.y - run.X @ u).sum()) for u in found]
        norms = [float(np.linalg.norm(u)) for u in found]
        values = [plain(run, norm, own, True) for norm, own in zip(norms, losses, strict=True)]
        return found[int(np.argmin(values))]

    def best_limited(run: RegressionRun) -> Floats:
        return _smallest(run, epsilon, np.full(len(run.y), 2.0 * C))

    if variant == "PA":
        return [RegressionTheorem("pa_regression", loss, plain, best_plain)]
    if variant == "PA-II":
        return [RegressionTheorem("pa_ii_regression", loss, limited, best_limited)]
    return []


def _ridge(run: RegressionRun, penalty: float) -> Floats:
    """Return the u with the smallest ||y - X u||^2 + penalty ||u||^2."""
    square = run.X.T @ run.X + penalty * np.eye(run.X.shape[1])
    return np.asarray(np.linalg.solve(square, run.X.T @ run.y), np.float64)


def _smallest(run: RegressionRun, epsilon: float, factors: Floats) -> Floats:
    """Return the u with the smallest ||u||^2 + sum of factor max(0, |y - u . x| - epsilon)^2 over rows."""
    from scipy.optimize import minimize  # takes long to import

    def objective(u: Floats) -> tuple[float, Floats]:
        residuals = run.y - run.X @ u
        beyond = np.sign(residuals) * np.maximum(np.abs(residuals) - epsilon, 0.0)
        weighted = factors * beyond
        return float(u @ u + weighted @ beyond), 2.0 * u - 2.0 * (weighted @ run.X)

    start = np.zeros(run.X.shape[1])
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B").x, np.float64)
