"""Several passes over a sample, until a learner separates it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from budgetron import bounds
from budgetron._base.access import competitor_kernel, competitor_rows
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._util.types import Rows

__all__ = ["Convergence", "learn_until_separated"]


@dataclass(frozen=True)
class Convergence:
    """How a learner converged on a sample.

    Attributes
    ----------
    passes : int
        Passes over the sample. The last one changed nothing.
    updates : int
        Updates in all passes; for kernel learners, mistakes.
    limit : float
        The largest number of updates by the theorem; infinity if no margin was given.
    """

    passes: int
    updates: int
    limit: float


def learn_until_separated(
    model: OnlineClassifier, X: Rows, y: ArrayLike, *, margin: float | None = None, max_passes: int = 10_000
) -> Convergence:
    """Forget everything, then pass over a sample until a pass makes no mistake and no update.

    The Perceptron converges on every sample that a hyperplane through the origin of its space separates. With
    margin rho and rows of length at most r it makes at most (r / rho)^2 updates in all passes (Mohri et al.,
    Theorem 8.8).

    Parameters
    ----------
    model : online learner
        A Perceptron, linear or with a kernel, or another learner that stops changing when it makes no
        mistakes. With a kernel use ``KernelPerceptron(counters=True)``, which stores each row once.
    X, y : array-like or CSR matrix of shape (n_samples, n_features), and labels of two classes
    margin : float, optional
        rho, the margin of some hyperplane through the origin. The theorem of the Perceptron is then checked.
    max_passes : int, default=10000

    Returns
    -------
    Convergence

    Raises
    ------
    bounds.AssumptionError
        If there are more updates than the theorem allows: the sample is not separable with this margin, or
        the learner is not a Perceptron.
    ValueError
        If the last of `max_passes` passes still changed the model. The model keeps what it learned.

    Examples
    --------
    >>> from budgetron import linear, streams
    >>> from budgetron.batch import learn_until_separated
    >>> X, y, _ = streams.separable(200, 5, margin=0.05, random_state=0)
    >>> result = learn_until_separated(linear.Perceptron(), X, y, margin=0.05)
    >>> result.updates <= result.limit
    True
    """
    if max_passes < 1:
        raise ValueError(f"max_passes must be at least 1; got {max_passes}")
    if margin is not None and not margin > 0.0:
        raise ValueError(f"margin must be above 0; got {margin}")
    classes = np.unique(column_or_1d(y))
    if len(classes) != 2:
        raise ValueError(f"y must have two classes; got {len(classes)}")
    model.fit(X, y)
    limit = inf if margin is None else bounds.perceptron_separable(_radius(model, X), margin)
    passes, before = 1, 0
    while (changes := _changes(model)) > before:
        if changes > limit * (1 + bounds.ROUNDING):
            raise bounds.AssumptionError(
                f"a sample separable with margin {margin} is assumed: the Perceptron makes at most "
                f"{limit:.6g} updates on it; {type(model).__name__} has made {changes}"
            )
        if passes == max_passes:
            raise ValueError(
                f"the sample is not separated after {passes} passes and {changes} updates; use a larger "
                "max_passes, another kernel, or fewer passes with a learner for noisy rows"
            )
        before = changes
        model.partial_fit(X, y)
        passes += 1
    return Convergence(passes, changes, limit)


def _changes(model: OnlineClassifier) -> int:
    """Return the number of rounds that changed the model."""
    return model.updates_ if isinstance(model, LinearClassifier) else model.mistakes_


def _radius(model: OnlineClassifier, X: Rows) -> float:
    return sqrt(float(competitor_kernel(model).diagonal(competitor_rows(model, X)).max()))
