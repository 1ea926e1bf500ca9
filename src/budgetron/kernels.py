"""Kernels: by name, as a Python function, and normalized.

========================  =====================================================
``"rbf"``                 exp(-gamma ||x - x'||^2)
``"linear"``              <x, x'>
``"poly"``                (gamma <x, x'> + coef0) ** degree
``"laplacian"``           exp(-gamma sum_i |x_i - x'_i|)
``"allsubsets"``          prod_i (1 + x_i x'_i)
a function                takes rows of shape (n, d) and (m, d), returns shape (n, m)
`Normalized`              any of these, as k(x, x') / sqrt(k(x, x) k(x', x'))
========================  =====================================================

The parameters have the names of those of `sklearn.svm.SVC`. Papers often write the Gaussian kernel as
exp(-||x - x'||^2 / (2 sigma^2)); this is "rbf" with gamma = 1 / (2 sigma^2).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._core.kernel import Kernel

__all__ = ["NAMES", "KernelFunction", "Normalized"]

NAMES = ("allsubsets", "laplacian", "linear", "poly", "rbf")

Array: TypeAlias = NDArray[Any]  # of float32 or float64
Matrix: TypeAlias = Any  # such an array, or a CSR matrix
KernelFunction: TypeAlias = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Normalized:
    """A kernel scaled so that k(x, x) = 1, which most mistake bounds assume.

    The kernel values of a row with k(x, x) = 0, such as a row of zeros with ``"linear"``, remain 0.

    Parameters
    ----------
    kernel : str or callable, default="linear"
        The kernel to normalize. It uses the learner's `gamma`, `degree` and `coef0`.

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
        if isinstance(self.kernel, str):
            object.__setattr__(self, "kernel", str(self.kernel))  # also of numpy.str_


def resolve(kernel: str | KernelFunction | Normalized, gamma: float, degree: int, coef0: float) -> Kernel:
    """Return the compiled kernel for a learner's parameters."""
    normalized = isinstance(kernel, Normalized)
    base = kernel.kernel if isinstance(kernel, Normalized) else kernel
    # The compiled kernel needs the exact type, not a subclass like numpy.str_.
    return Kernel(str(base) if isinstance(base, str) else base, gamma, degree, coef0, normalized)


def resolve_gamma(gamma: float | str, X: Matrix) -> float:
    """Return `gamma` as a number: "scale" is 1 / (n_features * variance of X), "auto" is 1 / n_features."""
    if gamma == "auto":
        return 1.0 / float(X.shape[1])
    if gamma == "scale":
        return _gamma_of_variance(_variance(X), X.shape[1])
    return float(gamma)


def _variance(X: Matrix) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        if issparse(X):
            return float(X.multiply(X).mean(dtype=np.float64) - X.mean(dtype=np.float64) ** 2)
        return float(np.var(X, dtype=np.float64))


def _gamma_of_variance(variance: float, d: int) -> float:
    if not np.isfinite(variance):
        raise ValueError(
            'gamma="scale" needs the variance of the first batch, which overflows; scale the features, or '
            "set gamma to a number"
        )
    if variance <= 0.0:
        return 1.0
    return min(1.0 / float(d) / variance, sys.float_info.max)
