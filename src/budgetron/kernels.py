"""Kernels by name, by function, and normalized.

========================  =====================================================
``"rbf"``                 exp(-gamma ||x - x'||^2)
``"linear"``              <x, x'>
``"poly"``                (gamma <x, x'> + coef0) ** degree
``"laplacian"``           exp(-gamma sum_i |x_i - x'_i|)
``"allsubsets"``          prod_i (1 + x_i x'_i)
a function                of two arrays of rows, (n, d) and (m, d): an (n, m) array
`Normalized`              of any of these: k(x, x') / sqrt(k(x, x) k(x', x'))
========================  =====================================================

Parameters are called as in `sklearn.svm.SVC`. A paper's sigma^2 in
exp(-||x - x'||^2 / (2 sigma^2)) means gamma = 1 / (2 sigma^2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._core.kernel import Kernel

__all__ = ["NAMES", "KernelFunction", "Normalized"]

NAMES = ("allsubsets", "laplacian", "linear", "poly", "rbf")

KernelFunction = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True)
class Normalized:
    """A kernel scaled so that k(x, x) = 1, as most mistake bounds ask.

    A row that the kernel maps to the zero function (a row of zeros under
    ``"linear"``) has no direction and stays there: its kernel values are all 0.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        The kernel to normalize. Its parameters are those of the learner.

    Examples
    --------
    >>> from budgetron import Forgetron
    >>> from budgetron.kernels import Normalized
    >>> Forgetron(kernel=Normalized("poly"), degree=2, coef0=1.0)
    Forgetron(coef0=1.0, degree=2, kernel=Normalized(kernel='poly'))
    """

    kernel: str | KernelFunction = "linear"

    def __post_init__(self) -> None:
        if not callable(self.kernel) and self.kernel not in NAMES:
            raise ValueError(f"kernel must be a function or one of {NAMES}; got {self.kernel!r}")


def resolve(kernel: str | KernelFunction | Normalized, gamma: float, degree: int, coef0: float) -> Kernel:
    """The core's kernel for a learner's parameters."""
    normalized = isinstance(kernel, Normalized)
    base = kernel.kernel if isinstance(kernel, Normalized) else kernel
    return Kernel(base, gamma, degree, coef0, normalized)


def resolve_gamma(gamma: float | str, X: Any) -> float:
    """`gamma` as a number: ``"scale"`` is 1 / (n_features * variance of X), ``"auto"`` 1 / n_features."""
    if gamma == "auto":
        return 1.0 / float(X.shape[1])
    if gamma == "scale":
        if issparse(X):
            variance = float(X.multiply(X).mean(dtype=np.float64) - X.mean(dtype=np.float64) ** 2)
        else:
            variance = float(np.var(X, dtype=np.float64))
        return 1.0 / (float(X.shape[1]) * variance) if variance > 0.0 else 1.0
    return float(gamma)
