"""Variances of second-order kernel learners with one output: at rows, and in the rounds of a batch."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from budgetron._base.batches import ledger_columns
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats, Ints

__all__ = ["round_variances", "variances_at"]


def variances_at(learner: Learner, X: Floats) -> Floats:
    """Return the variance of f(x) at each row of X, also outside of the span of the supports."""
    gaussian, projection = learner.rule.gaussian, learner.rule.projection
    assert gaussian is not None
    assert projection is not None
    wide = np.array(X, np.float64, order="C")  # a copy, because rows may be read-only
    kernel_values = np.asarray(learner.kernel_values(X), np.float64)
    z = solve_triangular(projection.rows(), kernel_values.T, lower=True, check_finite=False).T
    parts = [z]
    if gaussian.linear:
        parts = [np.ones((len(X), 1)), *([] if gaussian.diagonal else [gaussian.scale * wide]), z]
    phi = np.hstack(parts)
    inside = np.einsum("ij,ij->i", phi @ gaussian.covariance(), phi)
    if gaussian.diagonal:
        inside += (gaussian.scale * wide) ** 2 @ gaussian.spreads
    outside = learner.kernel.diagonal(wide) - np.einsum("ij,ij->i", z, z)
    variances: Floats = np.maximum(inside, 0.0) + gaussian.prior * np.maximum(outside, 0.0)
    return variances


def round_variances(learner: Learner, entries: Floats, sizes: Ints, supports: int) -> Floats:
    """Return the variance that f(x) had in each round, before it was learned.

    `entries` is the ledger of the rounds, `sizes` the number of supports after each, and `supports` that
    before the first. The ledger has the variance that the update used: without the part outside of the span,
    unless the row became a support.
    """
    columns = ledger_columns(learner.ledger, entries[None])
    outside = np.diff(sizes, prepend=supports) <= 0
    delta = np.asarray(columns["delta"], np.float64)
    assert learner.rule.gaussian is not None
    variances: Floats = (
        np.asarray(columns["variance"], np.float64) + learner.rule.gaussian.prior * outside * delta**2
    )
    return variances
