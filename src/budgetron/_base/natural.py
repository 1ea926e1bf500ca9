"""Gaussian hypotheses in natural parameters, in which what was learned from different rows is added.

A Gaussian with covariance Sigma and means w_c has the precision P = Sigma^-1 and the shifts b_c = P w_c. An
update of a second-order learner (w_c += a_c Sigma x, Sigma^-1 += (h / r) x x') changes them by::

    P += (h / r) x x',     b_c += (a_c (1 + h v / r) + h s_c / r) x

with v = x' Sigma x and s_c = w_c . x. With curvature 1 the change of b_c is (y_c / r) x, which does not
depend on the Gaussian.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Never

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, lapack, solve_triangular
from scipy.sparse import issparse

from budgetron._util.checks import State
from budgetron._util.types import Floats, Matrix

__all__ = [
    "Natural",
    "digest_of_rows",
    "kernel_gaussian",
    "kernel_natural",
    "linear_gaussian",
    "linear_natural",
    "packed",
    "unpacked",
]

# Variances are at most the prior's, except by rounding.
LARGEST_VARIANCE = 1.001


@dataclass(frozen=True)
class Natural:
    """The natural parameters of one Gaussian for all outputs, or the difference of two of them.

    Attributes
    ----------
    precision : ndarray of shape (n, n)
        Of the coordinates with covariances.
    shifts : ndarray of shape (n_outputs, n)
    own_precision : ndarray of shape (d,)
        Of the coordinates without covariances.
    own_shifts : ndarray of shape (n_outputs, d)
    """

    precision: Floats
    shifts: Floats
    own_precision: Floats
    own_shifts: Floats

    def plus(self, other: Natural, sign: float = 1.0) -> Natural:
        """Return the sum, or the difference if the sign is -1."""
        return Natural(
            self.precision + sign * other.precision,
            self.shifts + sign * other.shifts,
            self.own_precision + sign * other.own_precision,
            self.own_shifts + sign * other.own_shifts,
        )

    def is_finite(self) -> bool:
        """Return whether all numbers are finite."""
        parts = (self.precision, self.shifts, self.own_precision, self.own_shifts)
        return all(bool(np.isfinite(part).all()) for part in parts)


# ---------------------------------------------------------------------- linear learners


def linear_natural(state: State) -> Natural:
    """Return the natural parameters of a linear rule without forgetting, given its state."""
    means = np.atleast_2d(state["factor"] * state["weights"])
    outputs, d = means.shape
    if state["covariance"] is None:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            own = 1.0 / state["extra"]["sigma"]
            return _checked(Natural(np.zeros((0, 0)), np.zeros((outputs, 0)), own, means * own))
    # Sigma = U D U', so that P = V' D^-1 V with V = U^-1
    upper = np.eye(d)
    upper.T[np.tril_indices(d, -1)] = state["covariance"]["columns"]
    inverse = solve_triangular(upper, np.eye(d), unit_diagonal=True, check_finite=False)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        precision = (inverse.T / state["covariance"]["variances"]) @ inverse
        return _checked(Natural(precision, means @ precision, np.zeros(0), np.zeros((outputs, 0))))


def linear_gaussian(state: State, natural: Natural, prior: float) -> State:
    """Return the state of a linear rule, with the Gaussian of these natural parameters instead of its own."""
    parts: State
    if state["covariance"] is None:
        sigma = _variances(natural.own_precision, prior)
        means, parts = natural.own_shifts * sigma, {"extra": state["extra"] | {"sigma": sigma}}
    else:
        # P = C C' and Sigma = U D U' with U = C^-T diag(C), D = diag(C)^-2
        factor = _factor(natural.precision)
        diagonal = np.diag(factor)
        lower = diagonal[:, None] * _inverse(factor)  # U'
        variances = diagonal**-2.0
        _require_at_most(variances @ lower**2, prior)
        means = cho_solve((factor, True), natural.shifts.T, check_finite=False).T
        covariance = state["covariance"] | {
            "columns": lower[np.tril_indices(len(lower), -1)],
            "variances": variances,
        }
        parts = {"covariance": covariance}
    weights = np.ascontiguousarray(means).reshape(state["weights"].shape)
    square = float(weights.ravel() @ weights.ravel())
    return state | parts | {"weights": weights, "factor": 1.0, "norm2": square, "peak": square}


# ---------------------------------------------------------------------- kernel learners


def kernel_natural(state: State) -> Natural:
    """Return the natural parameters of a kernel rule with a Gaussian and no forgetting, given its state."""
    gaussian = state["gaussian"]
    n = gaussian["n"]
    precision = _inverse_of(unpacked(gaussian["sigma"][: n * (n + 1) // 2]))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        own = 1.0 / gaussian["spreads"]
        shifts = gaussian["means"][:, :n] @ precision
        return _checked(Natural(precision, shifts, own, gaussian["slopes"] * own))


def kernel_gaussian(state: State, natural: Natural, prior: float) -> State:
    """Return the state of a kernel rule, with the Gaussian of these natural parameters instead of its own."""
    gaussian = state["gaussian"]
    n = gaussian["n"]
    spreads = _variances(natural.own_precision, prior)
    factor = _factor(natural.precision)
    sigma, means = np.zeros_like(gaussian["sigma"]), np.zeros_like(gaussian["means"])
    inverse = _inverse(factor)
    full = inverse.T @ inverse
    _require_at_most(full.diagonal(), prior)
    sigma[: n * (n + 1) // 2] = packed(full)
    means[:, :n] = cho_solve((factor, True), natural.shifts.T, check_finite=False).T
    parts = {"sigma": sigma, "means": means, "spreads": spreads, "slopes": natural.own_shifts * spreads}
    return state | {"gaussian": gaussian | parts}


def digest_of_rows(rows: Matrix) -> str:
    """Return a text that is the same for the same rows, and different for others."""
    parts = (rows.indptr, rows.indices, rows.data) if issparse(rows) else (rows,)
    digest = hashlib.sha256(repr(rows.shape).encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------------- symmetric matrices


def packed(full: Floats) -> Floats:
    """Return the lower half of a symmetric matrix, row by row."""
    return full[np.tril_indices(len(full))]


def unpacked(lower: NDArray[np.float64]) -> Floats:
    """Return the symmetric matrix with this lower half."""
    n = int(np.sqrt(2 * len(lower)))
    full = np.zeros((n, n))
    full[np.tril_indices(n)] = lower
    full += np.tril(full, -1).T
    return full


def _factor(precision: Floats) -> Floats:
    """Return the lower triangular Cholesky factor of a precision."""
    try:
        factor: Floats = cholesky(precision, lower=True, check_finite=False)
    except LinAlgError:
        _refuse_precision()
    return factor


def _inverse(factor: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix."""
    inverse: Floats = lapack.dtrtri(factor, lower=1)[0]
    return inverse


def _inverse_of(sigma: Floats) -> Floats:
    """Return the inverse of a covariance."""
    try:
        factor = cholesky(sigma, lower=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            "the covariance of this model is singular up to rounding, so that its precision is not known; "
            "use a larger r or a smaller prior"
        ) from None
    inverse = _inverse(factor)
    precision: Floats = inverse.T @ inverse
    return precision


def _variances(own_precision: Floats, prior: float) -> Floats:
    """Return the variances of coordinates without covariances."""
    if not np.all(own_precision > 0.0):
        _refuse_precision()
    variances: Floats = 1.0 / own_precision
    _require_at_most(variances, prior)
    return variances


def _require_at_most(variances: Floats, prior: float) -> None:
    if not np.all(variances <= LARGEST_VARIANCE * prior):
        _refuse_precision()


def _refuse_precision() -> Never:
    raise ValueError(
        "the deltas take away more than this model has learned: variances would be above the prior; merge "
        "deltas that were computed between an earlier and a later state of one model"
    )


def _checked(natural: Natural) -> Natural:
    if not natural.is_finite():
        raise ValueError(
            "a variance of this model is 0 up to rounding, so that its precision is not finite; scale the "
            "features"
        )
    return natural
