"""Synthetic streams, and adversaries that make the bounds tight.

Each function returns arrays: rows, and labels of -1 and +1 unless its docstring says otherwise. Where a good
competitor is known, it is returned as well.
"""

from __future__ import annotations

from itertools import pairwise
from math import cos, pi, sin, sqrt
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

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

Vector: TypeAlias = NDArray[np.float64]
RandomState: TypeAlias = int | np.random.RandomState | None

# A competitor that changes: the first round of each, and its weights.
Competitors: TypeAlias = list[tuple[int, Vector]]


class _Player(Protocol):
    """A learner that the adversary `UnitVectors` plays against."""

    def play(self, x: Vector, y: float, classes: list[float]) -> float: ...


class _ExpertAlgorithm(Protocol):
    """An expert algorithm that the adversary `contradict` plays against."""

    def predict(self, advice: Vector) -> float: ...
    def update(self, advice: Vector, outcome: float) -> object: ...


def two_gaussians(
    n: int,
    noise: float = 0.1,
    spread: str = "variance",
    random_state: RandomState = None,
    *,
    balanced: bool = False,
) -> tuple[Vector, Vector]:
    """Draw two overlapping Gaussians in the plane, centred at (-1, -1) and (1, 1).

    The Projectron paper and the Forgetron paper use this stream.

    Parameters
    ----------
    n : int
        Number of rows.
    noise : float, default=0.1
        Share of the labels that are flipped.
    spread : {"variance", "std"}, default="variance"
        Whether the papers' numbers (0.2, 2) are the variances of the two features, as in the Projectron
        paper, or their standard deviations, as in the Forgetron paper.
    random_state : int, RandomState instance or None
    balanced : bool, default=False
        Whether each Gaussian has exactly n / 2 rows, in random order, as in the Forgetron paper; n must be
        even. Otherwise each row is drawn from either with probability 1/2. Labels are flipped afterwards.
    """
    if spread not in ("variance", "std"):
        raise ValueError(f'spread must be "variance" or "std"; got {spread!r}')
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must be between 0 and 1; got {noise}")
    if balanced and n % 2:
        raise ValueError(f"n must be even for two classes of the same size; got {n}")
    rng = check_random_state(random_state)
    y = rng.permutation(np.repeat([-1.0, 1.0], n // 2)) if balanced else rng.choice([-1.0, 1.0], n)
    scale = np.array([0.2, 2.0]) if spread == "std" else np.sqrt([0.2, 2.0])
    X = rng.normal(size=(n, 2)) * scale
    X += y[:, None]
    return X, np.where(rng.random_sample(n) < noise, -y, y)


def separable(
    n: int, features: int, margin: float, random_state: RandomState = None
) -> tuple[Vector, Vector, Vector]:
    """Draw rows of length 1 that a hyperplane through the origin separates by `margin`.

    Returns
    -------
    X, y, w
        Rows, labels, and weights of norm 1 with y w . x >= margin on every row.
    """
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be at least 0 and below 1, the length of the rows; got {margin}")
    if features < 2:
        raise ValueError(f"features must be at least 2; got {features}")
    rng = check_random_state(random_state)
    w = rng.normal(size=features)
    w /= np.linalg.norm(w)
    across = rng.normal(size=(n, features))
    across -= np.outer(across @ w, w)
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
    along = rng.uniform(margin, 1.0, n)
    y = rng.choice([-1.0, 1.0], n)
    X = (y * along)[:, None] * w + np.sqrt(1 - along**2)[:, None] * across
    return X, y, w


def majority(
    n: int, features: int, relevant: int, random_state: RandomState = None
) -> tuple[Vector, Vector, Vector]:
    """Draw rows of -1 and +1, labelled by the majority of some of their features.

    Section 3 of the CS269 lecture on the Perceptron.

    Returns
    -------
    X, y, w
        Rows, labels, and weights of norm 1: 1 / sqrt(relevant) for the relevant features.
    """
    if relevant % 2 == 0 or not 0 < relevant <= features:
        raise ValueError(f"relevant must be odd and at most {features}; got {relevant}")
    rng = check_random_state(random_state)
    w = np.zeros(features)
    w[rng.permutation(features)[:relevant]] = 1 / sqrt(relevant)
    X = rng.choice([-1.0, 1.0], (n, features))
    return X, np.where(X @ w >= 0, 1.0, -1.0), w


def unit_vectors(n: int) -> tuple[Vector, Vector]:
    """Return each unit vector once, all of one class: the Perceptron errs on all, so its bound is tight.

    Foundations of Machine Learning, exercise 8.3.
    """
    return np.eye(n), np.ones(n)


def exponential(features: int) -> tuple[Vector, Vector]:
    """Return rows on which the Perceptron, run until it separates them, makes at least 2^(N - 1) updates.

    Foundations of Machine Learning, exercise 8.1. y_i x_i is -1 in the features before i and +1 at i, so that
    each weight must exceed the sum of those before it. (The book has i leading features instead of i - 1;
    then no such bound holds.)
    """
    signed = np.eye(features) - np.tril(np.ones((features, features)), -1)
    y = np.where(np.arange(1, features + 1) % 2 == 1, 1.0, -1.0)
    return y[:, None] * signed, y


class UnitVectors:
    """An adversarial stream on which every budget learner errs in every round.

    Each row is a unit vector that is not a support.

    Section 2 of the Forgetron paper.

    Parameters
    ----------
    budget : int
        The budget of the learner. The number of unit vectors is larger by one.

    Examples
    --------
    >>> from budgetron import Forgetron, streams
    >>> adversary, model = streams.UnitVectors(10), Forgetron(10, kernel="linear")
    >>> X, y, margins = adversary.against(model, 50)
    >>> model.mistakes_
    50
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget

    @property
    def competitor(self) -> tuple[Vector, Vector]:
        """Rows and coefficients of the sum of all unit vectors: no loss, and a norm of sqrt(budget + 1)."""
        return np.eye(self.budget + 1), np.ones(self.budget + 1)

    def row(self, model: _Player) -> Vector:
        """Return the lowest unit vector that is not among the supports of the model."""
        stored = {int(row.argmax()) for row in getattr(model, "support_vectors_", ())}  # none before a round
        return np.asarray(np.eye(self.budget + 1)[min(set(range(self.budget + 1)) - stored)])

    def against(self, model: _Player, rounds: int) -> tuple[Vector, Vector, Vector]:
        """Play against a model; return the rows, the labels, and the margins."""
        rows, margins = [], []
        for _ in range(rounds):
            rows.append(self.row(model))
            margins.append(model.play(rows[-1], 1.0, classes=[-1.0, 1.0]))
        return np.array(rows), np.ones(rounds), np.array(margins)


def coin_flips(n: int, random_state: RandomState = None) -> Vector:
    """Draw losses of two experts, (0, 1) or (1, 0) by a fair coin: no algorithm has a small expected regret.

    Foundations of Machine Learning, Theorem 8.5.
    """
    first = check_random_state(random_state).randint(0, 2, n).astype(float)
    return np.column_stack([first, 1 - first])


def contradict(algorithm: _ExpertAlgorithm, rounds: int) -> tuple[Vector, Vector]:
    """Play against a deterministic expert algorithm: the outcome is always the one it did not predict.

    Foundations of Machine Learning, section 8.2.3. One expert always predicts 0 and the other always 1, so
    that one of them is right at least half of the time.

    Returns
    -------
    advice, outcomes
    """
    advice = np.tile([0.0, 1.0], (rounds, 1))
    outcomes = np.empty(rounds)
    for t in range(rounds):
        outcomes[t] = 0.0 if algorithm.predict(advice[t]) >= 0.5 else 1.0
        algorithm.update(advice[t], outcomes[t])
    return advice, outcomes


def rotating_hyperplane(
    n: int,
    angle: float = pi,
    steps: int = 10,
    margin: float = 0.1,
    norm: float = 1.0,
    random_state: RandomState = None,
) -> tuple[Vector, Vector, Competitors, float]:
    """Draw rows of length 1 in the plane, separated by a line that turns in steps.

    Returns
    -------
    X, y, competitors, shift
        Rows; labels; (first round, weights) for each position of the line, with weights of this `norm`; and
        the total distance by which the weights move.
    """
    if not 0 <= margin < 1:
        raise ValueError(f"margin must be at least 0 and below 1, the length of the rows; got {margin}")
    if not 1 <= steps <= n:
        raise ValueError(f"steps must be between 1 and the number of rows, {n}; got {steps}")
    rng = check_random_state(random_state)
    starts = [n * i // steps for i in range(steps)]
    turns = [angle * i / max(1, steps - 1) for i in range(steps)]
    X, y = np.empty((n, 2)), rng.choice([-1.0, 1.0], n)
    for start, end, turn in zip(starts, [*starts[1:], n], turns, strict=True):
        along = rng.uniform(margin, 1.0, end - start) * y[start:end]
        across = np.sqrt(1 - along**2) * rng.choice([-1.0, 1.0], end - start)
        w, v = np.array([cos(turn), sin(turn)]), np.array([-sin(turn), cos(turn)])
        X[start:end] = along[:, None] * w + across[:, None] * v
    weights = [norm * np.array([cos(turn), sin(turn)]) for turn in turns]
    return X, y, list(zip(starts, weights, strict=True)), _path_length(weights)


def drifting_gaussians(
    n: int,
    angle: float = 2 * pi,
    noise: float = 0.0,
    steps: int = 10,
    norm: float = 1.0,
    random_state: RandomState = None,
) -> tuple[Vector, Vector, Competitors, float]:
    """Draw two Gaussians whose centres move on the unit circle, opposite each other.

    Parameters
    ----------
    n : int
        Number of rows.
    angle : float, default=2 pi
        The angle by which the centres turn over the stream.
    noise : float, default=0.0
        Share of the labels that are flipped.
    steps, norm : int, default=10, and float, default=1.0
        The number of competitors, and their norm.
    random_state : int, RandomState instance or None

    Returns
    -------
    X, y, competitors, shift
        Rows; labels; (first round, weights) of competitors that follow the centres in steps; and the total
        distance by which the weights move.
    """
    if not 0 <= noise <= 1:
        raise ValueError(f"noise must be between 0 and 1; got {noise}")
    if not 1 <= steps <= n:
        raise ValueError(f"steps must be between 1 and the number of rows, {n}; got {steps}")
    rng = check_random_state(random_state)
    y = rng.choice([-1.0, 1.0], n)
    turn = np.linspace(0.0, angle, n)
    centres = np.column_stack([np.cos(turn), np.sin(turn)])
    X = y[:, None] * centres + 0.4 * rng.normal(size=(n, 2))
    starts = [n * i // steps for i in range(steps)]
    middles = [(start + end) // 2 for start, end in pairwise([*starts, n])]
    weights = [norm * centres[middle] for middle in middles]
    y = np.where(rng.random_sample(n) < noise, -y, y)
    return X, y, list(zip(starts, weights, strict=True)), _path_length(weights)


def _path_length(weights: list[Vector]) -> float:
    """Return the distance from the first weights through all others to the last."""
    return sum(float(np.linalg.norm(b - a)) for a, b in pairwise(weights))
