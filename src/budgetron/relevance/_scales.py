"""`feature_scales`, and the memory that it needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from budgetron._util.threads import one_thread
from budgetron._util.types import Codes, Floats, Labels, Rows
from budgetron.relevance._checks import (
    Settings,
    check_count,
    check_dtype,
    check_labels,
    check_rows,
    check_targets,
)
from budgetron.relevance._likelihood import Likelihood
from budgetron.relevance._window import CENTRE_ROWS, TargetWindow, Window, cut

__all__ = ["bytes_needed", "feature_scales"]

# Limits of the logarithms of the scales.
LEAST, MOST = -4.0, 3.0
# Adam: step size, decay of the means of the gradient and of its square, and the gradient below which steps
# become smaller. The last one keeps rounding errors of nearly zero gradients from becoming steps of full
# size.
RATE, DECAY, SQUARE_DECAY, SMALL_GRADIENT = 0.15, 0.9, 0.99, 0.1
# NumPy converts between types in three buffers of 8,192 numbers; the rest is for small objects.
CONVERSION_BUFFERS = 2**18


def feature_scales(
    X: Rows,
    y: Labels,
    gamma: float,
    *,
    max_rows: int = 1000,
    max_scales: int = 100,
    steps: int = 40,
    noise: float = 0.3,
    weight: float = 10.0,
    dtype: DTypeLike = np.float32,
    regression: bool = False,
) -> Floats:
    """Return a factor for each feature, so that the "rbf" kernel of the multiplied rows suits the labels.

    Use it before a kernel learner if some features may be irrelevant or differ in relevance: learn the rows
    ``X * scales`` with the same `gamma`. It helps most with few features (about 10 to 100); with hundreds of
    similar ones, such as pixels, the gain is small. It needs some hundred rows.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        The rows of the window, in the order of the stream. Sparse rows become dense one block at a time.
    y : array-like of shape (n,)
        Their labels, of any type that can be sorted.
    gamma : float
        The parameter of the kernel, for example 2 / median squared distance between rows.
    max_rows : int, default=1000
        The largest number of rows in one step. Memory grows with its square and time with its cube. Rows of
        more than 524 features have a smaller limit; see the notes.
    max_scales : int, default=100
        The largest number of different scales. With more features, several features share a scale; see the
        notes.
    steps : int, default=40
        Number of gradient steps.
    noise : float, default=0.3
        Variance of the noise in the model of the labels, at least 0.01.
    weight : float, default=10.0
        Weight of the prior, which keeps the logarithms of the scales near 0.
    dtype : {float32, float64}, default=float32
        Precision of the matrices. float64 takes twice the time and memory.
    regression : bool, default=False
        Whether `y` are numbers to predict, instead of classes.

    Returns
    -------
    ndarray of shape (d,)
        The scales, from exp(-4) to exp(3). Scales are exactly 1 for features that are constant in the window,
        and for all features if the window has only one class, or one number as target.

    Notes
    -----
    *Model.* With the scales exp(t_f), let K be the kernel matrix of the scaled rows and S = K + 1 + noise I,
    where 1 is the matrix of ones. Let y_c be the indicator of class c, minus its mean and divided by its
    deviation, for each of the q classes in the window. The objective, to be minimized, is the mean negative
    log marginal likelihood of the y_c under Gaussian processes with covariance S, plus the prior:

        L(t) = 1/2 log det S + 1/(2q) sum_c y_c' S^-1 y_c + weight/2 ||t||^2

    The indicators of two classes are the same except for the sign, so one of them is enough. A target of -1
    and +1 would be y_c times 2 sqrt(p (1 - p)) plus a constant, where p is the share of the class. The matrix
    of ones explains most of the constant; the factor would give unbalanced windows a smaller weight. In a
    regression there is one y_c: the targets of the window, minus their mean and divided by their deviation.

    *Gradient.* With A = S^-1 Y, the derivative by any parameter is 1/2 tr((S^-1 - A A'/q) dS), because
    d log det S = tr(S^-1 dS) and d S^-1 = -S^-1 dS S^-1. With z = exp(t) * x, dK_ij / dt_f = -2 gamma K_ij
    (z_if - z_jf)^2. With G = (S^-1 - A A'/q) * K, entry by entry, which is symmetric,

        dL/dt_f = -gamma sum_ij G_ij (z_if - z_jf)^2 + weight t_f
                = -2 gamma (sum_i (G 1)_i z_if^2 - z_f' G z_f) + weight t_f

    This is O(m^2 d) for all features of m rows. The number of classes matters only in A and A A'.

    *Steps.* t starts at 0. Adam takes `steps` steps of size 0.15 and t is clipped to [-4, 3] after each.
    Windows of more than `max_rows` rows, or more than 2^19 values, are cut into b consecutive blocks of m
    rows. Up to b - 1 rows at the start are left out, and if there are more blocks than steps, so are the
    oldest blocks. Step i uses block i mod b, and b times its gradient of the likelihood. Consecutive blocks
    keep rows together that are close in time.

    *Wide rows.* With more than `max_scales` features, those that vary are sorted by the share of their
    variance that is between the classes, or by their squared correlation with the targets, and cut into
    `max_scales` groups of adjacent ranks. Each group has one t_f, whose gradient is the sum over the group.

    *Cost.* Each step takes m^3 + 4 m^2 d + O(m^2 q) operations. `bytes_needed` bounds the temporary memory.
    Values farther than 32 / sqrt(2 gamma) from the median of their feature are clipped to that distance,
    where the kernel is 0 to rounding.

    *Reproducibility.* There is no randomness: the same input gives the same output. BLAS is limited to one
    thread, so the number of threads does not matter. Another BLAS, or (in one block, with at most
    `max_scales` features) another order of the rows changes the scales by rounding only.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams. Gaussian Processes for Machine Learning, chapter 5. MIT Press,
    2006.

    Examples
    --------
    >>> import numpy as np
    >>> from budgetron.relevance import feature_scales
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> y = X[:, 0] * X[:, 1] > 0  # the other two features are irrelevant
    >>> scales = feature_scales(X, y, gamma=0.25)
    >>> bool(scales[:2].min() > 1 > scales[2:].max())
    True
    """
    settings = Settings(gamma, max_rows, max_scales, steps, noise, weight, dtype)
    rows = check_rows(X)
    if regression:
        window: Window = TargetWindow(rows, check_targets(y, rows.shape[0]), settings)
    else:
        window = Window(rows, *check_labels(y, rows.shape[0]), settings)
    if not len(window.present):
        return np.ones(rows.shape[1])
    with one_thread():
        groups, count = window.groups(settings.max_scales)
        t = _minimize(window, groups, count, settings)
    return _by_feature(t, groups)


def bytes_needed(
    n: int, d: int, dtype: DTypeLike = np.float32, *, classes: int = 2, max_rows: int = 1000, steps: int = 40
) -> int:
    """Return an upper bound of the temporary memory of `feature_scales`, in bytes.

    It covers windows of n rows with d features, as dense arrays of numbers, and labels of at most 8 bytes. A
    sparse window takes at most 20 bytes more per value of a block, and a copy if it is not in CSR form. For a
    given limit, find the largest `max_rows` whose bound is within it.

    Parameters
    ----------
    n, d : int
        Number of rows and of features.
    dtype : {float32, float64}, default=float32
    classes : int, default=2
        Number of classes in the window.
    max_rows, steps : int
        As for `feature_scales`.

    Returns
    -------
    int

    Examples
    --------
    >>> from budgetron.relevance import bytes_needed
    >>> bytes_needed(1000, 100) < 15_000_000, bytes_needed(1000, 100, max_rows=250) < 2_000_000
    (True, True)
    """
    n, d, classes = check_count(n, "n", 1), check_count(d, "d", 1), check_count(classes, "classes", 1)
    m, _ = cut(n, d, check_count(max_rows, "max_rows", 2), check_count(steps, "steps", 1))
    item = check_dtype(dtype).itemsize
    columns = 1 if classes == 2 else classes
    matrices = item * (3 * m * m + 2 * m * d + 3 * m * columns)
    block = 8 * m * d  # a block in double precision
    check = max(m * d, 16 * min(m, CENTRE_ROWS) * d)  # before the matrices exist: finite or not; the median
    ranks = 8 * (m * classes + 4 * classes * d)
    return max(matrices, check, ranks) + block + 64 * n + 32 * m + 256 * d + CONVERSION_BUFFERS


def _by_feature(t: Floats, groups: Codes) -> Floats:
    """Return the scale of each feature; constant features, whose number is the last, have scale 1."""
    scales: Floats = np.append(np.exp(t), 1.0)[groups]
    return scales


def _minimize(window: Window, groups: Codes, count: int, settings: Settings) -> Floats:
    """Return the logarithms of the scales after all steps of Adam."""
    t, mean, square = np.zeros(count), np.zeros(count), np.zeros(count)
    likelihood = Likelihood(window.m, window.rows.shape[1], settings.noise, settings.dtype)
    for step in range(1, settings.steps + 1):
        number = (step - 1) % window.blocks
        scales = _by_feature(t, groups)
        by_feature = likelihood.gradient(
            window.features(number), scales, window.targets(number, settings.dtype)
        )
        if by_feature is None:  # not positive definite because of rounding, which only extreme rows may cause
            break
        gradient = np.bincount(groups, by_feature, count + 1)[:count] * window.blocks + settings.weight * t
        mean = DECAY * mean + (1 - DECAY) * gradient
        square = SQUARE_DECAY * square + (1 - SQUARE_DECAY) * gradient**2
        size = np.sqrt(square / (1 - SQUARE_DECAY**step)) + SMALL_GRADIENT
        t = np.clip(t - RATE * mean / (1 - DECAY**step) / size, LEAST, MOST)
    return t
