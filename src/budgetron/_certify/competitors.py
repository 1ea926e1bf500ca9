"""Competitors: whatever a run may be compared with, as an expansion over the learner's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.validation import check_is_fitted

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.trace import Trace
from budgetron._core.kernel import Kernel
from budgetron.kernels import NAMES

__all__ = ["Expansion", "Run", "expansion_of"]

Vector = NDArray[np.float64]
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Expansion:
    """g = sum of coef_i k(rows_i, .)."""

    kernel: Kernel
    rows: Vector
    coef: Vector
    name: str

    def values(self, X: Vector) -> Vector:
        out = np.zeros(len(X))
        for start in range(0, len(X), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            out[part] = self.kernel.matrix(X[part], self.rows) @ self.coef
        return out

    def norm(self) -> float:
        return sqrt(max(0.0, float(self.coef @ self.values(self.rows))))

    def distance(self, other: Expansion) -> float:
        rows, coef = np.vstack([self.rows, other.rows]), np.concatenate([self.coef, -other.coef])
        return Expansion(self.kernel, rows, coef, "").norm()


def _same_kernel(kernel: Kernel, other: Kernel, what: str) -> None:
    names = ["name", "normalized", "function"]
    names += {"rbf": ["gamma"], "laplacian": ["gamma"], "poly": ["gamma", "degree", "coef0"]}.get(
        kernel.name, []
    )
    for name in names:
        ours, theirs = getattr(kernel, name), getattr(other, name)
        if ours != theirs:
            raise ValueError(
                f"the competitor must have the learner's kernel; {name} is {theirs} in {what}, not {ours}"
            )


def _weights(w: Vector, kernel: Kernel, what: str) -> tuple[Vector, Vector]:
    """A weight vector as an expansion of one term."""
    if not kernel.normalized:
        _same_kernel(kernel, Kernel("linear"), what)
        return w[None, :], np.ones((1, 1))
    _same_kernel(kernel, Kernel("linear", normalized=True), what)
    return w[None, :], np.array([[np.linalg.norm(w)]])  # w . x / ||x|| = ||w|| k(w, x)


def expansion_of(competitor: Any, kernel: Kernel, d: int) -> Expansion:
    """The competitor as an expansion over the learner's kernel."""
    what = type(competitor).__name__
    if isinstance(competitor, KernelClassifier):
        check_is_fitted(competitor)
        _same_kernel(kernel, competitor._learners[0].kernel, what)
        rows, coef = competitor.support_vectors_, competitor.dual_coef_
    elif isinstance(competitor, SVC):
        check_is_fitted(competitor)
        if not callable(competitor.kernel) and competitor.kernel not in NAMES:
            raise ValueError(f"the competitor must have the learner's kernel; SVC has {competitor.kernel!r}")
        theirs = Kernel(competitor.kernel, competitor._gamma, competitor.degree, competitor.coef0)
        _same_kernel(kernel, theirs, what)
        rows, coef = competitor.support_vectors_, competitor.dual_coef_
        rows, coef = (a.toarray() if issparse(a) else a for a in (rows, coef))
        what += " without its intercept"
    elif isinstance(competitor, LinearSVC | LinearClassifier) or hasattr(competitor, "coef_"):
        check_is_fitted(competitor)
        weights = np.atleast_2d(np.asarray(competitor.coef_, float))
        if len(weights) != 1:
            raise ValueError(f"the competitor must tell two classes apart; {what} has {len(weights)} outputs")
        rows, coef = _weights(weights[0], kernel, what)
        if np.any(getattr(competitor, "intercept_", 0.0)):
            what += " without its intercept"
    elif isinstance(competitor, tuple) and len(competitor) == 2:
        rows, coef = np.asarray(competitor[0], float), np.asarray(competitor[1], float)[None, :]
        what = "an expansion"
    elif isinstance(competitor, np.ndarray) and competitor.ndim == 1:
        what = "a weight vector"
        rows, coef = _weights(np.asarray(competitor, float), kernel, what)
    else:
        raise TypeError(
            'competitor must be "best", (rows, coefficients), a weight vector, a fitted model, or a list of '
            f"(first round, competitor); got {competitor!r}"
        )
    if len(coef) != 1:
        raise ValueError(f"the competitor must tell two classes apart; {what} has {len(coef)} outputs")
    if rows.ndim != 2 or rows.shape[1] != d or rows.shape[0] != coef.shape[1]:
        raise ValueError(
            f"the competitor must have rows of {d} features and a coefficient each; "
            f"got {rows.shape} and {coef[0].shape}"
        )
    if not (np.isfinite(rows).all() and np.isfinite(coef).all()):
        raise ValueError("the competitor must be finite")
    return Expansion(kernel, np.ascontiguousarray(rows, float), np.ascontiguousarray(coef[0], float), what)


@dataclass
class Run:
    """The stream, what happened on it, and a competitor's part in it."""

    model: Any
    trace: Trace
    X: Vector
    y: Vector
    kernel: Kernel
    radius: float
    norm: float = 0.0
    margins: Vector = field(default_factory=lambda: np.zeros(0))  # y g(x)
    shift: float = 0.0
    name: str = ""
    expansion: tuple[Vector, Vector] | None = None

    @property
    def losses(self) -> float:
        return float(np.maximum(0.0, 1.0 - self.margins).sum())

    def meet(self, parts: Sequence[tuple[int, Expansion]]) -> None:
        """Take on competitors, each from its first round on."""
        starts = [start for start, _ in parts]
        if starts[0] != 0 or sorted(set(starts)) != starts or starts[-1] >= len(self.y):
            raise ValueError(f"competitors must begin at 0 and at later rounds of the stream; got {starts}")
        self.margins = np.empty(len(self.y))
        for (start, g), end in zip(parts, [*starts[1:], len(self.y)], strict=True):
            self.margins[start:end] = self.y[start:end] * g.values(self.X[start:end])
        self.norm = max(g.norm() for _, g in parts)
        self.shift = sum(b.distance(a) for (_, a), (_, b) in pairwise(parts))
        self.expansion = (parts[0][1].rows, parts[0][1].coef) if len(parts) == 1 else None
        self.name = parts[0][1].name if len(parts) == 1 else f"{len(parts)} in turn"

    def entries(self, name: str) -> Vector:
        """A column of the ledger."""
        if self.trace.ledger is None:
            raise ValueError(
                "this theorem speaks of the ledger; make the trace with progressive_fit(..., ledger=True)"
            )
        return np.asarray(self.trace.ledger[name], np.float64)
