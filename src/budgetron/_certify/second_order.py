"""The bounds of second-order learners, and the competitor with the smallest one."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit

from budgetron import bounds
from budgetron._base.margin_losses import logistic
from budgetron._base.theorems import Images, ImageTheorem, LogisticSteps, Run
from budgetron._certify.competitors import Expansion
from budgetron._util.types import Floats
from budgetron.bounds import Check

__all__ = ["evaluate_images"]

# The kink of the hinge loss is smoothed over these widths, one after the other.
WIDTHS = (0.3, 0.1, 0.03, 0.01)
# Keeps norms differentiable at 0.
TINY = 1e-12
# Smaller differences of the bound, in parts of the number of rounds, may be rounding.
LEAST_GAIN = 1e-4


def evaluate_images(
    run: Run, theorem: ImageTheorem, competitor: Expansion | None, check: Check
) -> tuple[float, NDArray[np.bool_]]:
    """Store a competitor in the run, the best if none is given; return the bound and the correct updates.

    Correct updates are rounds that were learned although the prediction was right.
    """
    more = np.zeros((0, run.X.shape[1])) if competitor is None else competitor.rows
    images = theorem.images(run, more, check)
    if competitor is None:
        find = _best if images.logistic is None else _best_logistic
        u, run.competitor = find(run, theorem, images), "the best found, in the span of the learner"
        if images.supports is None:
            run.expansion = (u[None, :], np.ones(1))
    else:
        u, run.competitor = _coordinates(run, images, competitor), competitor.name
        run.expansion = (competitor.rows, competitor.coef)
    run.margins, run.norm = run.y * (images.rows @ u), float(np.linalg.norm(u))
    correct = images.learned & ~run.trace.mistakes
    if images.logistic is not None:
        return _logistic_bound(run, theorem, images, images.logistic, u, check), correct
    correct_updates = int(np.count_nonzero(correct))
    values = images.rows[images.learned] * u if images.diagonal else images.rows[images.learned] @ u
    squares = float(np.square(values).sum())
    common = (run.norm, squares, run.losses, images.gain, correct_updates)
    if theorem.name == "second_order_rows":
        kernel_norm = float(np.linalg.norm(u[images.first :]))
        bound = bounds.second_order_rows(
            *common, images.deltas, kernel_norm, theorem.r, theorem.prior, images.exchanges, check=check
        )
    else:
        exchanged, dropped = float(np.square(u @ images.removed).sum()), float(u @ images.dropped)
        bound = bounds.second_order(*common, theorem.r, theorem.prior, exchanged, dropped, check=check)
    return bound, correct


def _logistic_bound(
    run: Run, theorem: ImageTheorem, images: Images, steps: LogisticSteps, u: Floats, check: Check
) -> float:
    run.loss = "logistic"
    margins = run.margins[images.learned]
    differences = margins - steps.after
    above_tangent = logistic(margins) - logistic(steps.after) + steps.slopes * differences
    if steps.diagonal is None:
        squares = float(steps.curvatures @ np.square(differences))
    else:
        q, b, k = steps.diagonal
        squares = float(q @ (u * u) - 2.0 * (b @ u)) + k
    correct = steps.before > 0.0
    return bounds.second_order_logistic(
        run.norm,
        run.losses,
        0.5 * squares - float(above_tangent.sum()),
        images.gain,
        float(logistic(steps.before[correct]).sum()),
        theorem.r,
        theorem.prior,
        float(np.square(u @ images.removed).sum()),
        check=check,
    )


def _best_logistic(run: Run, theorem: ImageTheorem, images: Images) -> Floats:
    """Return the competitor with the smallest bound.

    In the rounds that were learned, the losses and the remainder are a quadratic function of u. Coordinates
    are changed so that the quadratic terms are 1/2 ||v||^2. The losses of the other rounds are convex.
    """
    from scipy.optimize import minimize  # takes long to import

    steps = images.logistic
    assert steps is not None
    learned, n = images.rows[images.learned] * run.y[images.learned, None], images.rows.shape[1]
    if not n:
        return np.zeros(0)
    metric = _Metric(
        images,
        learned * np.sqrt(steps.curvatures)[:, None],
        np.arange(n) >= images.first,
        theorem.r / theorem.prior,
    )
    if steps.diagonal is None:
        slope = (steps.slopes + steps.curvatures * steps.after) @ learned
    else:
        slope = steps.slopes @ learned + steps.diagonal[1]
    start = metric.lower(slope)
    others = metric.lower((images.rows[~images.learned] * run.y[~images.learned, None]).T).T

    def objective(v: Floats) -> tuple[float, Floats]:
        margins = others @ v
        value = 0.5 * float(v @ v) - float(start @ v) + float(logistic(margins).sum())
        return value, v - start - expit(-margins) @ others

    found = minimize(objective, start, method="L-BFGS-B", jac=True, options={"maxiter": 500, "maxcor": 20})
    return metric.upper(found.x)


def _coordinates(run: Run, images: Images, competitor: Expansion) -> Floats:
    """Return the coordinates of a competitor; a part outside of the span does not change its values there."""
    if images.supports is None:
        weights: Floats = competitor.coef @ competitor.rows
        return weights
    u = np.zeros(images.rows.shape[1])
    u[images.first :] = competitor.coef @ run.kernel.matrix(competitor.rows, images.supports) @ images.basis
    return u


def _best(run: Run, theorem: ImageTheorem, images: Images) -> Floats:
    """Return a competitor whose bound is smallest, or nearly so.

    The bound is convex in u. It is sqrt(gain) times a norm, plus a linear function, plus a multiple of the
    norm of the kernel part, plus hinge losses. Coordinates are changed so that the first norm is the
    Euclidean one. Then L-BFGS minimizes it, with a smoothed hinge loss.
    """
    from scipy.optimize import minimize  # takes long to import

    learned, n = images.rows[images.learned], images.rows.shape[1]
    if not n:
        return np.zeros(0)
    kernel_part = np.arange(n) >= images.first
    metric = _Metric(images, learned, kernel_part, theorem.r / theorem.prior)
    rows = metric.lower(images.rows.T).T * run.y[:, None]
    dropped = metric.lower(images.dropped)
    root, deltas = sqrt(max(images.gain, 0.0)), images.deltas
    far = float(np.linalg.norm(deltas)) * root + float(deltas.sum())

    def objective(v: Floats, width: float) -> tuple[float, Floats]:
        missing = 1.0 - rows @ v
        slope = np.clip(missing / width + 0.5, 0.0, 1.0)
        losses = np.where(slope < 1.0, 0.5 * width * slope**2, missing)
        length = sqrt(float(v @ v) + TINY)
        value = root * length + float(dropped @ v) + float(losses.sum())
        gradient = root / length * v + dropped - slope @ rows
        if far:
            part = np.where(kernel_part, metric.upper(v), 0.0)
            size = sqrt(float(part @ part) + TINY)
            value += far * size
            gradient = gradient + far / size * metric.lower(part)
        return value, gradient

    # At 0 the value is the number of rounds. A competitor that gains less than this is no better.
    v, best, smallest = rows.sum(axis=0), np.zeros(n), (1.0 - LEAST_GAIN) * len(rows)
    v /= max(float(np.linalg.norm(rows @ v)) / sqrt(len(rows)), TINY)
    for width in WIDTHS:
        v = minimize(objective, v, (width,), "L-BFGS-B", jac=True, options={"maxiter": 300, "maxcor": 20}).x
        value = objective(v, TINY)[0]
        if value < smallest:
            best, smallest = v, value
    return metric.upper(best)


class _Metric:
    """The matrix F F' whose value at u is the square under the first root of the bound."""

    def __init__(self, images: Images, learned: Floats, kernel_part: NDArray[np.bool_], ratio: float) -> None:
        self._diagonal = images.diagonal
        if images.diagonal:
            self._factor = np.sqrt(ratio + np.square(learned).sum(axis=0))
            return
        prior = np.diag(1.0 + images.exchanges * kernel_part) + images.removed @ images.removed.T
        self._factor = cholesky(learned.T @ learned + ratio * prior, lower=True)

    def lower(self, b: Floats) -> Floats:
        """Return F^-1 b."""
        if self._diagonal:
            return np.asarray((b.T / self._factor).T)
        found: Floats = solve_triangular(self._factor, b, lower=True)
        return found

    def upper(self, b: Floats) -> Floats:
        """Return F'^-1 b."""
        if self._diagonal:
            return np.asarray(b / self._factor)
        found: Floats = solve_triangular(self._factor, b, lower=True, trans="T")
        return found
