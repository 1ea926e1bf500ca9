"""Feature scales for the "rbf" kernel from labelled rows, by automatic relevance determination.

Features that separate the classes, or explain the targets, get scales above 1, irrelevant ones get scales
below 1. The scales maximize the marginal likelihood of Gaussian process regression on the labels, together
with a prior that keeps them near 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs
from scipy.sparse import issparse

from budgetron._util.sparse import check_sparse
from budgetron._util.threads import one_thread
from budgetron._util.types import Codes, Floats, Labels, Reals, Rows

__all__ = ["bytes_needed", "feature_scales"]

# A step uses at most this many values of features, so that wide rows do not make it slow.
MOST_VALUES = 2**19
# Limits of the logarithms of the scales.
LEAST, MOST = -4.0, 3.0
# Adam: step size, decay of the means of the gradient and of its square, and the gradient below which steps
# become smaller. The last one keeps rounding errors of nearly zero gradients from becoming steps of full
# size.
RATE, DECAY, SQUARE_DECAY, SMALL_GRADIENT = 0.15, 0.9, 0.99, 0.1
# Differences from the centre, in units of 1 / sqrt(2 gamma), are clipped to this. At this distance the kernel
# is 0 to rounding, and squares of larger numbers would lose the digits of the small distances.
FAR = 32.0
# The kernel is at least exp(-80): smaller numbers are slow in single precision.
LEAST_EXPONENT = -80.0
LEAST_NOISE = 0.01
# NumPy converts between types in three buffers of 8,192 numbers; the rest is for small objects.
CONVERSION_BUFFERS = 2**18
# Rows whose median is the centre of the features
CENTRE_ROWS = 100


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
    settings = _Settings(gamma, max_rows, max_scales, steps, noise, weight, dtype)
    rows = _check_rows(X)
    if regression:
        window: _Window = _TargetWindow(rows, _check_targets(y, rows.shape[0]), settings)
    else:
        window = _Window(rows, *_check_labels(y, rows.shape[0]), settings)
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
    >>> bytes_needed(1000, 100) < 12_000_000, bytes_needed(1000, 100, max_rows=250) < 2_000_000
    (True, True)
    """
    n, d, classes = _check_count(n, "n", 1), _check_count(d, "d", 1), _check_count(classes, "classes", 1)
    m, _ = _cut(n, d, _check_count(max_rows, "max_rows", 2), _check_count(steps, "steps", 1))
    item = _check_dtype(dtype).itemsize
    columns = 1 if classes == 2 else classes
    matrices = item * (2 * m * m + 2 * m * d + 3 * m * columns)
    block = 8 * m * d  # a block in double precision
    check = max(m * d, 16 * min(m, CENTRE_ROWS) * d)  # before the matrices exist: finite or not; the median
    ranks = 8 * (m * classes + 4 * classes * d)
    return max(matrices, check, ranks) + block + 64 * n + 32 * m + 256 * d + CONVERSION_BUFFERS


# ---------------------------------------------------------------------- the window


class _Settings:
    """The checked parameters."""

    def __init__(
        self,
        gamma: object,
        max_rows: object,
        max_scales: object,
        steps: object,
        noise: object,
        weight: object,
        dtype: DTypeLike,
    ) -> None:
        self.gamma = _check_number(gamma, "gamma", positive=True)
        self.max_rows = _check_count(max_rows, "max_rows", 2)
        self.max_scales = _check_count(max_scales, "max_scales", 1)
        self.steps = _check_count(steps, "steps", 1)
        self.noise = _check_number(noise, "noise", positive=True)
        if self.noise < LEAST_NOISE:  # S would not be positive definite in single precision
            raise ValueError(f"noise must be at least {LEAST_NOISE}; got {self.noise}")
        self.weight = _check_number(weight, "weight", positive=False)
        self.dtype = _check_dtype(dtype)


def _check_number(value: object, name: str, positive: bool) -> float:
    least = "above 0" if positive else "at least 0"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number {least}; got {value!r}")
    number = float(value)
    if not (0.0 < number < np.inf or (number == 0.0 and not positive)):
        raise ValueError(f"{name} must be finite and {least}; got {number}")
    return number


def _check_count(value: object, name: str, least: int) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")
    return int(value)


def _check_dtype(value: DTypeLike) -> np.dtype[Any]:
    dtype = np.dtype(value)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {dtype}")
    return dtype


def _check_rows(X: Any) -> Any:
    """Return X as an array of numbers or as a CSR matrix; check its shape, but not yet its values."""
    if issparse(X):
        check_sparse(X)
        rows = X.tocsr()
    else:
        rows = np.asarray(X)
    if rows.dtype.kind not in "biufO":
        raise ValueError(f"X must contain real numbers; it has the type {rows.dtype}. Encode other values")
    if rows.dtype.kind == "O" or rows.dtype.itemsize > 8:
        try:
            rows = rows.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X must contain real numbers: {error}. Encode other values") from error
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"X must have shape (n, d) with at least one row and one feature; got {rows.shape}. "
            "Reshape a single row by X.reshape(1, -1)"
        )
    return rows


def _check_labels(y: Any, n: int) -> tuple[Codes, int]:
    """Return the labels as numbers from 0, and the number of classes."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n:
        raise ValueError(f"y must have shape ({n},), one label per row of X; got {labels.shape}")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise ValueError(
            f"y must be finite; the label of row {row} is {labels[row]}. Leave out unlabelled rows"
        )
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"the labels in y must be of one type, such as all str: {error}") from error
    return codes.reshape(-1), len(classes)


def _check_targets(y: Any, n: int) -> Floats:
    """Return the targets of a regression."""
    try:
        targets = np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the targets in y must be numbers: {error}") from error
    if targets.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one target per row of X; got {targets.shape}")
    if not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise ValueError(f"y must be finite; the target of row {row} is {targets[row]}")
    return targets


def _cut(n: int, d: int, max_rows: int, steps: int) -> tuple[int, int]:
    """Return the number of rows in a block and the number of blocks."""
    most = max(2, min(max_rows, MOST_VALUES // d))
    blocks = min(-(-n // most), steps)
    return min(n // blocks, most), blocks


class _Window:
    """The rows and targets of a window, one block at a time.

    Rows are centred and multiplied by sqrt(2 gamma), so that the exponent of the kernel is -||u - u'||^2 / 2.
    """

    def __init__(self, rows: Any, codes: Codes, classes: int, settings: _Settings) -> None:
        n, d = rows.shape
        self.rows, self.codes, self.classes = rows, codes, classes
        self.m, self.blocks = _cut(n, d, settings.max_rows, settings.steps)
        self.start = n - self.m * self.blocks
        self._check_values()
        self.root = np.sqrt(2.0) * np.sqrt(settings.gamma)  # 2 gamma could overflow
        self.centre = self._centre()
        self.block = np.empty((self.m, d))
        # The classes of the rows that are used; two classes need one target.
        counts = np.bincount(codes[self.start :], minlength=classes)
        self.present = np.flatnonzero((counts > 0) & (counts < counts.sum()))
        self.present = self.present[:1] if len(self.present) == 2 else self.present
        self.share = counts[self.present] / counts.sum()

    def _dense(self, start: int, stop: int, step: int = 1) -> NDArray[Any]:
        part = self.rows[start:stop:step]
        return np.asarray(part.toarray() if issparse(part) else part)

    def _check_values(self) -> None:
        for start in range(0, self.rows.shape[0], self.m):
            part = self._dense(start, start + self.m)
            finite = np.isfinite(part)
            if not finite.all():
                row, feature = np.argwhere(~finite)[0]
                raise ValueError(
                    f"X must be finite, without NaN and infinity; feature {feature} of row {start + row} is "
                    f"{part[row, feature]}. Replace such values or leave out the row"
                )

    def _centre(self) -> Floats:
        """Return the medians of some rows.

        The kernel does not depend on the centre. It keeps rounding errors small, also if there are outliers.
        """
        step = -(-self.rows.shape[0] // min(self.m, CENTRE_ROWS))
        sample = self._dense(0, self.rows.shape[0], step).astype(np.float64)
        sample.sort(axis=0)
        centre: Floats = sample[len(sample) // 2].copy()
        return centre

    def features(self, number: int) -> Floats:
        """Return the features of a block; the next call overwrites them."""
        start = self.start + self.m * number
        with np.errstate(over="ignore"):  # infinite differences are clipped
            np.subtract(self._dense(start, start + self.m), self.centre, out=self.block)
            self.block *= self.root
        np.clip(self.block, -FAR, FAR, out=self.block)
        return self.block

    def targets(self, number: int, dtype: np.dtype[Any]) -> Reals:
        """Return the targets of a block: one column for each class."""
        start = self.start + self.m * number
        codes = self.codes[start : start + self.m]
        Y = np.empty((self.m, len(self.present)), dtype, order="F")
        np.equal(codes[:, None], self.present, out=Y)
        Y -= self.share.astype(dtype)
        Y /= np.sqrt(self.share * (1.0 - self.share)).astype(dtype)
        return Y

    def groups(self, most: int) -> tuple[Codes, int]:
        """Return the number of the scale of each feature, and how many scales there are.

        Constant features have a number of their own after these.
        """
        d = self.rows.shape[1]
        if d <= most:
            return np.arange(d), d
        between, varies = self._between_share()
        ranked = np.argsort(-between, kind="stable")
        ranked = ranked[varies[ranked]]
        count = min(most, len(ranked))
        groups = np.full(d, count)
        groups[ranked] = np.arange(len(ranked)) * count // max(len(ranked), 1)
        return groups, count

    def _between_share(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the share of each feature's variance between classes, and whether it varies at all."""
        d = self.rows.shape[1]
        sums, counts, squares = np.zeros((self.classes, d)), np.zeros(self.classes), np.zeros(d)
        for number in range(self.blocks):
            U = self.features(number)
            start = self.start + self.m * number
            members = (self.codes[start : start + self.m, None] == np.arange(self.classes)).astype(np.float64)
            sums += members.T @ U
            counts += members.sum(axis=0)
            squares += np.einsum("if,if->f", U, U)
        mean = sums.sum(axis=0) / counts.sum()
        total = squares - counts.sum() * mean**2
        within = squares - np.einsum("cf,cf,c->f", sums, sums, 1.0 / np.maximum(counts, 1.0))
        varies = total > 1e-12 * squares
        return np.where(varies, 1.0 - within / np.where(varies, total, 1.0), 0.0), varies


class _TargetWindow(_Window):
    """A window of a regression: its one target is the standardised number."""

    def __init__(self, rows: Any, numbers: Floats, settings: _Settings) -> None:
        super().__init__(rows, np.zeros(len(numbers), np.intp), 1, settings)
        used = numbers[self.start :]
        largest = max(float(np.abs(used).max()), np.finfo(np.float64).tiny)
        centred = used / largest - (used / largest).mean()  # squares of large numbers would overflow
        deviation = float(np.sqrt(np.mean(centred**2)))
        varies = deviation > 1e-12
        self.numbers = centred / deviation if varies else np.zeros(len(used))
        self.present = np.zeros(1 if varies else 0, np.intp)

    def targets(self, number: int, dtype: np.dtype[Any]) -> Reals:
        part = self.numbers[self.m * number : self.m * (number + 1)]
        return np.array(part[:, None], dtype, order="F")  # a copy, because it will be overwritten

    def _between_share(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the squared correlation of each feature with the target, and whether it varies at all."""
        d, n = self.rows.shape[1], self.m * self.blocks
        sums, squares, products = np.zeros(d), np.zeros(d), np.zeros(d)
        for number in range(self.blocks):
            U = self.features(number)
            sums += U.sum(axis=0)
            squares += np.einsum("if,if->f", U, U)
            products += self.numbers[self.m * number : self.m * (number + 1)] @ U
        total = squares - sums**2 / n
        varies = total > 1e-12 * squares
        return np.where(varies, products**2 / (n * np.where(varies, total, 1.0)), 0.0), varies


# ---------------------------------------------------------------------- the marginal likelihood


def _by_feature(t: Floats, groups: Codes) -> Floats:
    """Return the scale of each feature; constant features, whose number is the last, have scale 1."""
    scales: Floats = np.append(np.exp(t), 1.0)[groups]
    return scales


def _minimize(window: _Window, groups: Codes, count: int, settings: _Settings) -> Floats:
    """Return the logarithms of the scales after all steps of Adam."""
    t, mean, square = np.zeros(count), np.zeros(count), np.zeros(count)
    likelihood = _Likelihood(window.m, window.rows.shape[1], settings.noise, settings.dtype)
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


@dataclass
class _Routines:
    """Routines of BLAS and LAPACK for one type of numbers."""

    syrk: Any
    symm: Any
    symv: Any
    potrf: Any
    potrs: Any
    potri: Any

    @classmethod
    def of(cls, dtype: np.dtype[Any]) -> _Routines:
        return cls(
            *get_blas_funcs(("syrk", "symm", "symv"), dtype=dtype),
            *get_lapack_funcs(("potrf", "potrs", "potri"), dtype=dtype),
        )


class _Likelihood:
    """The gradient of the negative log marginal likelihood, with two matrices of m x m and two of m x d."""

    def __init__(self, m: int, d: int, noise: float, dtype: np.dtype[Any]) -> None:
        self.noise = noise
        self.lapack = _Routines.of(dtype)
        self.K, self.S = np.empty((m, m), dtype), np.empty((m, m), dtype, order="F")
        self.U, self.GU = np.empty((m, d), dtype), np.empty((m, d), dtype)
        self.ones = np.ones(m, dtype)

    def gradient(self, features: Floats, scales: Floats, Y: Reals) -> Floats | None:
        """Return dL/dt for each feature without the prior, or None if S is not positive definite.

        The routines read and write the lower triangles of symmetric matrices. What is in the upper triangle
        of S after them is not used.
        """
        U, GU, K, S, lapack = self.U, self.GU, self.K, self.S, self.lapack
        np.multiply(features, scales, out=U, casting="same_kind")
        np.matmul(U, U.T, out=K)
        half = K.diagonal() / 2  # from K itself, so that the diagonal below is exactly 1
        K -= half
        K -= half[:, None]
        np.clip(K, LEAST_EXPONENT, 0.0, out=K)
        np.exp(K, out=K)
        # S is in column order and K in row order; K is symmetric, and S.T has the order of K.
        np.add(K, K.dtype.type(1), out=S.T)
        np.einsum("ii->i", S)[:] += K.dtype.type(self.noise)
        S, failed = lapack.potrf(S, lower=1, clean=0, overwrite_a=1)
        if failed:
            return None
        A, _ = lapack.potrs(S, Y, lower=1, overwrite_b=1)
        S, _ = lapack.potri(S, lower=1, overwrite_c=1)
        S = lapack.syrk(-1.0 / Y.shape[1], A, beta=1.0, c=S, lower=1, overwrite_c=1)
        np.multiply(S.T, K, out=S.T)  # G
        sums = lapack.symv(1.0, S, self.ones, lower=1)
        GU = lapack.symm(1.0, S, U.T, c=GU.T, side=1, lower=1, overwrite_c=1).T
        # u_f' G u_f - sum_i (G 1)_i u_if^2, in the matrices that are not needed any more
        np.multiply(U, GU, out=GU)
        np.multiply(U, U, out=U)
        gradient: Floats = GU.sum(axis=0, dtype=np.float64) - sums @ U
        return gradient
