"""The streams of the benchmarks."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from budgetron import datasets
from budgetron.streams import two_gaussians

Stream = tuple[Any, np.ndarray]


@cache
def adult(online: bool = True) -> tuple[csr_matrix, np.ndarray, str]:
    """Return a9a in a fixed order and its name, or random rows of the same shape if it is not available."""
    try:
        if not (online or os.environ.get("BUDGETRON_DATA")):
            raise datasets.DataNotFoundError("downloads are disabled")
        X, y = datasets.load_adult()
    except (datasets.DataNotFoundError, OSError):
        X, y = sparse(32561, 123, 14 / 123, 0)
        # Perturb the ones: equal distances would give ties, which rounding decides
        X.data += 0.05 * np.random.default_rng(1).normal(size=len(X.data))
        return csr_matrix(X), y, "rows shaped like a9a"
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order], "a9a"


def labels(X: Any, rng: np.random.Generator, noise: float) -> np.ndarray:
    """Return labels by a random hyperplane with noise; noise 1 flips a quarter of the labels."""
    values = np.asarray(X @ rng.normal(size=X.shape[1]))
    values -= np.median(values)
    spread = values.std() or 1.0
    return np.where(values + noise * spread * rng.normal(size=len(values)) > 0, 1.0, -1.0)


def dense(n: int, d: int, seed: int = 0, noise: float = 0.4) -> Stream:
    """Return dense rows of normal numbers, with about as many mistakes as on a9a."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, labels(X, rng, noise)


def sparse(n: int, d: int, density: float, seed: int = 0) -> tuple[csr_array, np.ndarray]:
    """Return CSR rows with the same number of ones each, at random positions."""
    rng = np.random.default_rng(seed)
    ones = max(1, round(density * d))
    places = np.concatenate(
        [np.sort(np.argsort(rng.random((len(part), d)), axis=1)[:, :ones], axis=1) for part in _parts(n, d)]
    )
    X = csr_array((np.ones(ones * n), places.ravel(), np.arange(0, ones * n + 1, ones)), shape=(n, d))
    return X, labels(X, rng, 0.4)


def _parts(n: int, d: int) -> list[range]:
    step = max(1, 4_000_000 // d)
    return [range(start, min(n, start + step)) for start in range(0, n, step)]


def random_labels(n: int, d: int, seed: int = 0) -> Stream:
    """Return dense rows with random labels: every second round is a mistake, so budgets fill quickly."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)


def gaussians(n: int, seed: int = 0) -> Stream:
    """Return two noisy Gaussians in the plane."""
    return two_gaussians(n, random_state=seed)


def rings(n: int, seed: int = 0, noise: float = 0.05) -> Stream:
    """Return a disc and a ring around it, which no line separates, with a share `noise` of flipped labels."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    radius, angle = np.where(y > 0, 0.8, 1.8) + 0.3 * rng.normal(size=n), rng.uniform(0, 2 * np.pi, n)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X, np.where(rng.random(n) < noise, -y, y)


def blobs(n: int, classes: int, d: int = 64, seed: int = 0) -> Stream:
    """Return one Gaussian cloud per class; the clouds overlap."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return 1.2 * rng.normal(size=(classes, d))[y] / np.sqrt(d) * 8 + 2 * rng.normal(size=(n, d)), y
