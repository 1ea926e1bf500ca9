"""Competitors of all kinds, as expansions over the learner's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from budgetron._base.access import competitor_kernel, kernel_hypotheses_of, predicts_as_it_learns
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.theorems import Run
from budgetron._core.kernel import Kernel
from budgetron._util.blocks import row_blocks
from budgetron._util.types import Floats
from budgetron.kernels import NAMES

__all__ = ["Expansion", "expansion_of", "expansions_of", "set_competitors"]

ROWS_AT_ONCE = 1024


class LinearModel(Protocol):
    """A fitted linear model, as scikit-learn has them."""

    @property
    def coef_(self) -> ArrayLike:
        """Weights of shape (n_outputs, n_features) or (n_features,)."""


@dataclass(frozen=True)
class Expansion:
    """The function g = sum of coef_i k(rows_i, .), with a name for reports."""

    kernel: Kernel
    rows: Floats
    coef: Floats
    name: str

    def values(self, X: Floats) -> Floats:
        """Return g(x) for each row."""
        out = np.zeros(len(X))
        for block in row_blocks(len(X), ROWS_AT_ONCE):
            out[block] = self.kernel.matrix(X[block], self.rows) @ self.coef
        return out

    def norm(self) -> float:
        """Return ||g||."""
        return sqrt(max(0.0, float(self.coef @ self.values(self.rows))))

    def distance(self, other: Expansion) -> float:
        """Return ||g - other||."""
        rows, coef = np.vstack([self.rows, other.rows]), np.concatenate([self.coef, -other.coef])
        return Expansion(self.kernel, rows, coef, "").norm()


def _require_same_kernel(kernel: Kernel, other: Kernel, what: str) -> None:
    """Raise an error that names the first difference, if the kernels differ."""
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


def _weights(w: Floats, kernel: Kernel, what: str) -> tuple[Floats, Floats]:
    """Return a weight vector as an expansion of one term."""
    if not kernel.normalized:
        _require_same_kernel(kernel, Kernel("linear"), what)
        return w[None, :], np.ones((1, 1))
    _require_same_kernel(kernel, Kernel("linear", normalized=True), what)
    return w[None, :], np.array([[np.linalg.norm(w)]])  # w . x / ||x|| = ||w|| k(w, x)


def _terms(competitor: object, kernel: Kernel, intercept: bool) -> tuple[Floats, Floats, str]:
    """Return the rows, the coefficients of shape (n_outputs, n_rows) and the name of a competitor.

    With `intercept`, rows may have an additional first column.
    """
    from sklearn.svm import SVC, LinearSVC  # takes long to import

    name = type(competitor).__name__
    if isinstance(competitor, KernelClassifier):
        check_is_fitted(competitor)
        _require_same_kernel(kernel, competitor_kernel(competitor), name)
        if not predicts_as_it_learns(competitor):
            raise TypeError(f"{name} cannot be a competitor: it predicts with more than one hypothesis")
        gaussian = kernel_hypotheses_of(competitor)[0].rule.gaussian
        has_linear_part = gaussian is not None and gaussian.linear
        rows = competitor.support_vectors_
        rows = rows.toarray() if issparse(rows) else rows
        return rows, competitor.dual_coef_, f"{name} without its linear part" if has_linear_part else name
    if isinstance(competitor, SVC):
        check_is_fitted(competitor)
        if not callable(competitor.kernel) and competitor.kernel not in NAMES:
            raise ValueError(f"the competitor must have the learner's kernel; SVC has {competitor.kernel!r}")
        other = Kernel(competitor.kernel, competitor._gamma, competitor.degree, competitor.coef0)
        _require_same_kernel(kernel, other, name)
        rows, coef = competitor.support_vectors_, competitor.dual_coef_
        rows, coef = (a.toarray() if issparse(a) else a for a in (rows, coef))
        if intercept and len(coef) == 1:  # one more term, which is the intercept at every row
            rows = np.vstack([np.eye(1, rows.shape[1] + 1), np.insert(rows, 0, 0.0, axis=1)])
            return rows, np.insert(coef, 0, competitor.intercept_, axis=1), name
        return rows, coef, f"{name} without its intercept"
    if isinstance(competitor, tuple) and len(competitor) == 2:
        return (
            np.asarray(competitor[0], float),
            np.atleast_2d(np.asarray(competitor[1], float)),
            "an expansion",
        )
    if isinstance(competitor, np.ndarray) and competitor.ndim == 1:
        name = "a weight vector"
        return *_weights(np.asarray(competitor, float), kernel, name), name
    if isinstance(competitor, LinearSVC | LinearClassifier) or hasattr(competitor, "coef_"):
        return _linear_model_terms(competitor, kernel, name, intercept)
    raise TypeError(
        'competitor must be "best", (rows, coefficients), a weight vector, a fitted model, or a list of '
        f"(first round, competitor); got {competitor!r}"
    )


def _linear_model_terms(
    competitor: LinearModel, kernel: Kernel, name: str, intercept: bool
) -> tuple[Floats, Floats, str]:
    """Return a fitted linear model, ours or scikit-learn's, in the form of `_terms`."""
    check_is_fitted(competitor)
    weights = np.atleast_2d(np.asarray(competitor.coef_, float))
    if len(weights) != 1:
        raise ValueError(f"the competitor must separate two classes; {name} has {len(weights)} outputs")
    own = np.atleast_1d(np.asarray(getattr(competitor, "intercept_", 0.0), float))
    if intercept:
        return *_weights(np.append(own, weights[0]), kernel, name), name
    return *_weights(weights[0], kernel, name), f"{name} without its intercept" if own.any() else name


def expansion_of(competitor: object, kernel: Kernel, d: int, intercept: bool = False) -> Expansion:
    """Return the competitor as an expansion over the learner's kernel, for rows of d features.

    With `intercept`, the first of them is a constant. A competitor whose rows lack it has no intercept.
    """
    rows, coef, name = _terms(competitor, kernel, intercept)
    if intercept and rows.ndim == 2 and rows.shape[1] == d - 1:
        rows = np.insert(rows, 0, 0.0, axis=1)
    if len(coef) != 1:
        raise ValueError(f"the competitor must separate two classes; {name} has {len(coef)} outputs")
    return _checked(kernel, rows, coef, name, d, intercept)[0]


def expansions_of(competitor: object, kernel: Kernel, d: int, n_classes: int) -> list[Expansion]:
    """Return the competitor of each class as an expansion; see `expansion_of`."""
    rows, coef, name = _terms(competitor, kernel, intercept=False)
    if len(coef) != n_classes:
        raise ValueError(f"the competitor must have {n_classes} outputs; {name} has {len(coef)}")
    return _checked(kernel, rows, coef, name, d, intercept=False)


def _checked(
    kernel: Kernel, rows: Floats, coef: Floats, name: str, d: int, intercept: bool
) -> list[Expansion]:
    """Return an expansion for each row of the coefficients."""
    if rows.ndim != 2 or rows.shape[1] != d or rows.shape[0] != coef.shape[1]:
        widths = (
            f"{d - 1} features, or {d} with a first one for the intercept," if intercept else f"{d} features"
        )
        raise ValueError(
            f"the competitor must have rows of {widths} and one coefficient per row; "
            f"got {rows.shape} and {coef[0].shape}"
        )
    if not (np.isfinite(rows).all() and np.isfinite(coef).all()):
        raise ValueError("the competitor must be finite: its rows or coefficients contain NaN or infinity")
    rows = np.ascontiguousarray(rows, float)
    return [Expansion(kernel, rows, np.ascontiguousarray(own, float), name) for own in coef]


def set_competitors(run: Run, parts: Sequence[tuple[int, Expansion]]) -> None:
    """Enter competitors in the run, each from its first round on."""
    starts = [start for start, _ in parts]
    if starts[0] != 0 or sorted(set(starts)) != starts or starts[-1] >= len(run.y):
        raise ValueError(f"competitors must begin at 0 and at later rounds of the stream; got {starts}")
    run.margins = np.empty(len(run.y))
    for (start, g), end in zip(parts, [*starts[1:], len(run.y)], strict=True):
        run.margins[start:end] = run.y[start:end] * g.values(run.X[start:end])
    run.norm = max(g.norm() for _, g in parts)
    run.shift = sum(b.distance(a) for (_, a), (_, b) in pairwise(parts))
    run.expansion = (parts[0][1].rows, parts[0][1].coef) if len(parts) == 1 else None
    run.competitor = parts[0][1].name if len(parts) == 1 else f"{len(parts)} competitors in sequence"
