"""The images of rows that a second-order learner learned, computed again from the stream and its trace.

AROW learns the rows themselves. `SecondOrderProjectron` learns their images in the span of the supports at
the time of the round. Spans grow as supports are added, so that the images follow from the last set of
supports and from the sizes in the trace. An exchange removes supports. The sets before it are found by
learning the stream again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.loss_classifier import LossClassifier
from budgetron._base.theorems import Images, LogisticSteps, Run
from budgetron._util.types import Floats, Ints
from budgetron.bounds import AssumptionError, Check, assume

__all__ = [
    "Removal",
    "check_second_order",
    "learned_rounds",
    "linear_images",
    "linear_part",
    "removals_of",
    "row_images",
    "span_images",
]

# Directions of the span with a smaller part of the largest eigenvalue are rounding.
LEAST_PART = 1e-12
# Keeps logarithms finite.
TINY = 1e-300
# Squared distances below these parts of k(x, x) are 0 to the learner, in float32 and in float64.
NO_DISTANCE = {True: 1e-5, False: 1e-12}


def check_second_order(model: LossClassifier, check: Check) -> None:
    """Check what the theorem assumes about the parameters."""
    if model.loss_ == "squared":
        raise AssumptionError(
            "the theorems of second-order learners are about the hinge loss and the logistic loss; the model "
            "has the squared loss"
        )
    assume(check, model.forget == 1.0, "a forget of 1", model.forget)
    weights = [float(weight) for weight in (model.class_weight or {}).values() if weight != 1.0]
    assume(check, not weights, "a weight of 1 for all rows", weights[0] if weights else 1.0)


class Learned(NamedTuple):
    """The rounds that were learned, the gain of the bound, and the steps if the loss is logistic."""

    rounds: NDArray[np.bool_]
    gain: float
    logistic: LogisticSteps | None


def learned_rounds(run: Run, r: float, loss: str) -> Learned:
    """Return which rounds of a run were learned, and what the bound needs to know about their steps."""
    tau = run.ledger("tau")
    rounds = ~np.isnan(tau)
    margins, steps = (run.y * run.trace.margins)[rounds], tau[rounds]
    if loss == "logistic":  # tau = g / r, and -g is the slope of the loss at the margin after the step
        slopes = np.maximum(r * steps, TINY)
        logistic = LogisticSteps(margins, np.log1p(-slopes) - np.log(slopes), slopes)
        return Learned(rounds, logistic.gain, logistic)
    # tau = (1 - m) / (v + r), so that this is the sum of 1 - r (1 - m)^2 / (v + r)
    return Learned(rounds, float(np.sum(1.0 - r * steps * (1.0 - margins))), None)


# ---------------------------------------------------------------------- linear learners


def linear_images(run: Run, r: float, prior: float, diagonal: bool, loss: str) -> Images:
    """Return the images of a linear learner: the rows."""
    learned = learned_rounds(run, r, loss)
    d = run.X.shape[1]
    gain, dropped, logistic = learned.gain, np.zeros(d), learned.logistic
    if diagonal and logistic is not None:
        logistic = replace(logistic, diagonal=_diagonal_squares(run, learned, r, prior))
    elif diagonal:
        gain, dropped = _diagonal_terms(run, learned, r, prior)
    empty, none = np.zeros((d, 0)), np.zeros(0)
    return Images(
        run.X, learned.rounds, gain, d, empty, diagonal, dropped, None, empty.T, none, logistic=logistic
    )


def _diagonal_steps(
    run: Run, learned: Learned, curvatures: Floats, r: float, prior: float
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield curvature times x^2, and the mean and the precision after each step of a diagonal covariance."""
    d, tau = run.X.shape[1], run.ledger("tau")
    w, precision = np.zeros(d), np.full(d, 1.0 / prior)
    for t, curvature in zip(np.flatnonzero(learned.rounds), curvatures, strict=True):
        x = run.X[t]
        w += run.y[t] * tau[t] * x / precision
        precision += curvature * x * x / r
        yield curvature * x * x, w, precision


def _diagonal_terms(run: Run, learned: Learned, r: float, prior: float) -> tuple[float, Floats]:
    """Return the gain, and the sum of (x x' - diag(x x')) w over the rounds that were learned."""
    rounds, d = np.flatnonzero(learned.rounds), run.X.shape[1]
    dropped, potential = np.zeros(d), 0.0
    steps = _diagonal_steps(run, learned, np.ones(len(rounds)), r, prior)
    for t, (squares, w, precision) in zip(rounds, steps, strict=True):
        dropped += run.X[t] * (run.X[t] @ w) - squares * w
        potential = float(r * (precision @ (w * w)))
    return potential, dropped


def _diagonal_squares(run: Run, learned: Learned, r: float, prior: float) -> tuple[Floats, Floats, float]:
    """Return `LogisticSteps.diagonal`."""
    assert learned.logistic is not None
    d = run.X.shape[1]
    q, b, k = np.zeros(d), np.zeros(d), 0.0
    for squares, w, _ in _diagonal_steps(run, learned, learned.logistic.curvatures, r, prior):
        q, b, k = q + squares, b + squares * w, k + float(squares @ (w * w))
    return q, b, k


# ---------------------------------------------------------------------- the span of the supports


@dataclass(frozen=True)
class Removal:
    """Supports that were removed after a round: all supports before, and those that stayed, oldest first."""

    round: int
    before: Ints
    kept: Ints


def span_images(
    run: Run, learned: Learned, supports: Ints, removals: Sequence[Removal], fixed: Floats
) -> Images:
    """Return the images in the span of each round.

    Parameters
    ----------
    run : Run
    learned : Learned
    supports : ndarray of int
        The rounds in which the last supports were added, oldest first.
    removals : sequence of Removal
        In the order in which they took place.
    fixed : ndarray of shape (n_rounds, any)
        The coordinates of the linear part.
    """
    sizes = np.asarray(run.trace.support_sizes)
    sets = [*(removal.before for removal in removals), supports]
    every = np.unique(np.concatenate(sets))
    basis, coordinates = _basis(run, run.X[every])
    Z, removed, start = np.zeros((len(sizes), basis.shape[1])), [], 0
    for i, own in enumerate(sets):
        stop = removals[i].round + 1 if i < len(removals) else len(sizes)
        within = sizes[start:stop].copy()
        if i < len(removals):
            within[-1:] = len(own)  # the removal is at the end of its round
            # Those that stay come first, so that the last vectors of the basis span what is removed.
            kept = removals[i].kept
            order = np.concatenate([kept, np.setdiff1d(own, kept)])
            vectors = _orthonormal(run, order, coordinates[np.searchsorted(every, order)])
            removed.append(vectors[len(kept) :].T)
        places = np.searchsorted(every, own)
        Z[start:stop] = _images_of(run, own, run.X[start:stop], within, coordinates[places])
        start = stop
    return _images(learned, fixed, Z, removed, run.X[every], basis)


def row_images(
    run: Run, learned: Learned, supports: Ints, exchanges: int, fixed: Floats, more: Floats, single: bool
) -> Images:
    """Return the rows in coordinates of the last supports and of other rows, with their distances.

    `single` tells whether the learner computes in float32.
    """
    sizes = np.asarray(run.trace.support_sizes)
    rows = np.vstack([run.X[supports], more])
    basis, _ = _basis(run, rows)
    Z = run.kernel.matrix(run.X, rows) @ basis if len(rows) else np.zeros((len(sizes), 0))
    added, deltas = np.diff(sizes, prepend=0) > 0, run.ledger("delta")
    # A distance of 0 in the ledger may be a small one that is rounding to the learner.
    smallest = np.sqrt(NO_DISTANCE[single] * run.kernel.diagonal(run.X))
    deltas = np.where(added, 0.0, np.where(deltas > 0.0, deltas, smallest))[learned.rounds]
    return _images(learned, fixed, Z, [], rows, basis, deltas, exchanges)


def _images(
    learned: Learned,
    fixed: Floats,
    Z: Floats,
    removed: list[Floats],
    supports: Floats,
    basis: Floats,
    deltas: Floats | None = None,
    exchanges: int = 0,
) -> Images:
    rows = np.hstack([fixed, Z])
    first, n = fixed.shape[1], rows.shape[1]
    lost = np.hstack(removed) if removed else np.zeros((n - first, 0))
    lost = np.vstack([np.zeros((first, lost.shape[1])), lost])
    none = np.zeros(0) if deltas is None else deltas
    return Images(
        rows,
        learned.rounds,
        learned.gain,
        first,
        lost,
        False,
        np.zeros(n),
        supports,
        basis,
        none,
        exchanges,
        learned.logistic,
    )


def linear_part(run: Run, scale: float | None) -> Floats:
    """Return the coordinates of the linear part: 1 and the features times `scale`; none without a scale."""
    if scale is None:
        return np.zeros((len(run.y), 0))
    return np.hstack([np.ones((len(run.y), 1)), scale * run.X])


def _basis(run: Run, supports: Floats) -> tuple[Floats, Floats]:
    """Return the matrix from kernel values to coordinates, and the coordinates of the supports."""
    if not len(supports):
        return np.zeros((0, 0)), np.zeros((0, 0))
    values, directions = np.linalg.eigh(run.kernel.matrix(supports, supports))
    used = values > LEAST_PART * values[-1]
    roots = np.sqrt(values[used])
    return directions[:, used] / roots, directions[:, used] * roots


def _factor(run: Run, supports: Ints) -> Floats:
    gram = run.kernel.matrix(run.X[supports], run.X[supports])
    found: Floats = cholesky(gram + 1e-14 * np.diag(np.diag(gram)), lower=True)
    return found


def _orthonormal(run: Run, supports: Ints, coordinates: Floats) -> Floats:
    """Return an orthonormal basis of the span of supports, each vector in that of its predecessors."""
    vectors: Floats = solve_triangular(_factor(run, supports), coordinates, lower=True)
    return vectors


def _images_of(run: Run, supports: Ints, X: Floats, sizes: Ints, coordinates: Floats) -> Floats:
    """Return the image of each row in the span of as many of the supports as there were in its round."""
    if not len(supports) or not len(X):
        return np.zeros((len(X), coordinates.shape[1]))
    factor = _factor(run, supports)
    values = solve_triangular(factor, run.kernel.matrix(run.X[supports], X), lower=True).T
    values[np.arange(len(supports)) >= sizes[:, None]] = 0.0
    images: Floats = values @ solve_triangular(factor, coordinates, lower=True)
    return images


def removals_of(model: KernelClassifier, run: Run) -> list[Removal]:
    """Return the exchanges of supports in a run, by learning the stream again."""
    sizes = np.asarray(run.trace.support_sizes)
    rounds = np.flatnonzero(np.diff(sizes) < 0) + 1
    if not len(rounds):
        return []
    again = clone(model).set_params(gamma=model.gamma_)
    X = run.X.astype(model.support_vectors_.dtype)
    sets, start = [], 0
    for stop in [*rounds.tolist(), len(X)]:
        if stop > start:
            again.partial_fit(X[start:stop], run.y[start:stop], classes=[-1.0, 1.0])
        sets.append(again.support_)
        start = stop
    if not np.array_equal(sets[-1], model.support_):
        raise ValueError(
            "the run cannot be repeated: learning the stream again gives other supports. Pass the rows in "
            'the form in which they were learned, or use theorem="second_order_rows"'
        )
    # The supports that stay are the oldest of the next set.
    return [
        Removal(t, before, after[: sizes[t]])
        for t, before, after in zip(rounds.tolist(), sets, sets[1:], strict=False)
    ]
