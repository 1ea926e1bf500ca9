"""Streams to learn from: synthetic ones, and adversaries that make the bounds tight."""

from budgetron.streams._synthetic import (
    UnitVectors,
    coin_flips,
    contradict,
    drifting_gaussians,
    exponential,
    majority,
    rotating_hyperplane,
    separable,
    two_gaussians,
    unit_vectors,
)

__all__ = [
    "UnitVectors",
    "coin_flips",
    "contradict",
    "drifting_gaussians",
    "exponential",
    "majority",
    "rotating_hyperplane",
    "separable",
    "two_gaussians",
    "unit_vectors",
]
