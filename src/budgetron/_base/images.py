"""The images of rows that a second-order learner learned, computed again from the stream and its trace.

AROW learns the rows themselves. `SecondOrderProjectron` learns their images in the span of the supports at
the time of the round. Spans grow as supports are added, so that the images follow from the last set of
supports and from the sizes in the trace. An exchange removes supports. The sets before it are found by
learning the stream again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.loss_classifier import LossClassifier
from budgetron._base.theorems import Images, Run
from budgetron._util.types import Floats, Ints
from budgetron.bounds import AssumptionError, Check, assume

__all__ = ["check_second_order", "linear_images", "row_images", "span_images"]

# Directions of the span with a smaller part of the largest eigenvalue are rounding.
LEAST_PART = 1e-12
# Squared distances below these parts of k(x, x) are 0 to the learner.
NO_DISTANCE = {"float32": 1e-5, "float64": 1e-12}


def check_second_order(model: LossClassifier, check: Check) -> None:
    """Check what the theorem assumes about the parameters."""
    if model.loss_ != "hinge":
        raise AssumptionError(
            f"the theorem of second-order learners is about the hinge loss; the model has the {model.loss_} "
            "loss"
        )
    assume(check, model.forget == 1.0, "a forget of 1", model.forget)
    weights = [float(weight) for weight in (model.class_weight or {}).values() if weight != 1.0]
    assume(check, not weights, "a weight of 1 for all rows", weights[0] if weights else 1.0)


def linear_images(run: Run, r: float, prior: float, diagonal: bool) -> Images:
    """Return the images of a linear learner: the rows."""
    learned, gain = _learned(run, r)
    d = run.X.shape[1]
    dropped = np.zeros(d)
    if diagonal:
        gain, dropped = _diagonal_terms(run, learned, r, prior)
    empty = np.zeros((d, 0))
    return Images(run.X, learned, gain, d, empty, diagonal, dropped, None, empty.T, np.zeros(0))


def _learned(run: Run, r: float) -> tuple[NDArray[np.bool_], float]:
    """Return which rounds were learned, and the sum of 1 - r (1 - m)^2 / (v + r) over them."""
    tau = run.ledger("tau")
    learned = ~np.isnan(tau)
    missing = (1.0 - run.y * run.trace.margins)[learned]  # tau = (1 - m) / (v + r)
    return learned, float(np.sum(1.0 - r * tau[learned] * missing))


def _diagonal_terms(run: Run, learned: NDArray[np.bool_], r: float, prior: float) -> tuple[float, Floats]:
    """Return the gain, and the sum of (x x' - diag(x x')) w over the rounds that were learned."""
    d = run.X.shape[1]
    w, precision, dropped = np.zeros(d), np.full(d, 1.0 / prior), np.zeros(d)
    tau = run.ledger("tau")
    for t in np.flatnonzero(learned):
        x = run.X[t]
        w += run.y[t] * tau[t] * x / precision
        precision += x * x / r
        dropped += x * (x @ w) - x * x * w
    return float(r * (precision @ (w * w))), dropped


# ---------------------------------------------------------------------- the span of the supports


def span_images(model: KernelClassifier, run: Run, r: float, linear: bool) -> Images:
    """Return the images in the span of each round."""
    learned, gain = _learned(run, r)
    sizes = np.asarray(run.trace.support_sizes)
    ends = np.flatnonzero(np.diff(sizes) < 0) + 1  # rounds of an exchange
    sets = [*_supports_before(model, run, ends), model.support_]
    every = np.unique(np.concatenate(sets))
    basis, coordinates = _basis(run, run.X[every])
    Z, removed, start = np.zeros((len(sizes), basis.shape[1])), [], 0
    for i, own in enumerate(sets):
        stop = ends[i] + 1 if i < len(ends) else len(sizes)
        within = sizes[start:stop].copy()
        if i < len(ends):
            within[-1] = len(own)  # the exchange is at the end of its round
            # Those that stay come first, so that the last vectors of the basis span what is removed.
            kept = sets[i + 1][: sizes[ends[i]]]
            order = np.concatenate([kept, np.setdiff1d(own, kept)])
            vectors = _orthonormal(run, order, coordinates[np.searchsorted(every, order)])
            removed.append(vectors[len(kept) :].T)
        places = np.searchsorted(every, own)
        Z[start:stop] = _images_of(run, own, run.X[start:stop], within, coordinates[places])
        start = stop
    fixed = _fixed(model, run, linear)
    return _images(run, learned, gain, fixed, Z, removed, run.X[every], basis)


def row_images(model: KernelClassifier, run: Run, more: Floats, r: float, linear: bool) -> Images:
    """Return the rows in coordinates of the last supports and of other rows, with their distances."""
    learned, gain = _learned(run, r)
    sizes = np.asarray(run.trace.support_sizes)
    supports = np.vstack([run.X[model.support_], more])
    basis, _ = _basis(run, supports)
    Z = run.kernel.matrix(run.X, supports) @ basis if len(supports) else np.zeros((len(sizes), 0))
    added, deltas = np.diff(sizes, prepend=0) > 0, run.ledger("delta")
    # A distance of 0 in the ledger may be a small one that is rounding to the learner.
    smallest = np.sqrt(NO_DISTANCE[model.support_vectors_.dtype.name] * run.kernel.diagonal(run.X))
    deltas = np.where(added, 0.0, np.where(deltas > 0.0, deltas, smallest))[learned]
    exchanges = int(np.count_nonzero(np.diff(sizes) < 0))
    fixed = _fixed(model, run, linear)
    return _images(run, learned, gain, fixed, Z, [], supports, basis, deltas, exchanges)


def _images(
    run: Run,
    learned: NDArray[np.bool_],
    gain: float,
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
    return Images(rows, learned, gain, first, lost, False, np.zeros(n), supports, basis, none, exchanges)


def _fixed(model: KernelClassifier, run: Run, linear: bool) -> Floats:
    """Return the coordinates of the linear part."""
    if not linear:
        return np.zeros((len(run.y), 0))
    return np.hstack([np.ones((len(run.y), 1)), np.sqrt(model.gamma_) * run.X])


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


def _supports_before(model: KernelClassifier, run: Run, rounds: Ints) -> list[Ints]:
    """Return the supports before each of these rounds, by learning the stream again."""
    if not len(rounds):
        return []
    again = clone(model).set_params(gamma=model.gamma_)
    X = run.X.astype(model.support_vectors_.dtype)
    found, start = [], 0
    for stop in [*rounds.tolist(), len(X)]:
        if stop > start:
            again.partial_fit(X[start:stop], run.y[start:stop], classes=[-1.0, 1.0])
        found.append(again.support_)
        start = stop
    if not np.array_equal(found.pop(), model.support_):
        raise ValueError(
            "the run cannot be repeated: learning the stream again gives other supports. Pass the rows in "
            'the form in which they were learned, or use theorem="second_order_rows"'
        )
    return found
