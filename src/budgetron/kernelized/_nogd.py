"""Nystroem online gradient descent (Lu, Hoi, Wang, Zhao, Liu 2016)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import TAU
from cython.cimports.budgetron._core.span import SpanRule
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron.kernels import KernelFunction, Normalized

# Eigenvalues of the Gram matrix below this share of the largest one count as 0.
SMALLEST_EIGENVALUE = cython.declare(cython.double, 1e-6)
# Neighbouring eigenvalues are ties if they differ by at most this share of the largest one. The errors of
# eigenvectors are the rounding errors of the Gram matrix, divided by the difference.
DOUBLE_GAP = cython.declare(cython.double, 1e-7)
SINGLE_GAP = cython.declare(cython.double, 1e-3)


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
def leading_eigenvectors(gram: NDArray[np.float64], rank: int, gap: float) -> NDArray[np.float64]:
    """Return orthonormal eigenvectors of the largest eigenvalues of a Gram matrix, at most `rank` of them.

    Eigenvectors of tied eigenvalues are determined only up to a rotation, which depends on rounding. If not
    all of them can be kept, the choice must not depend on it: the projections of the oldest supports'
    coordinates onto their span are kept. A coordinate near the span of those before it is skipped.
    """
    values, vectors = np.linalg.eigh(gram)
    values, vectors = values[::-1], vectors[:, ::-1]
    n, usable = len(values), int(np.count_nonzero(values > SMALLEST_EIGENVALUE * values[0]))
    if rank >= usable:
        return vectors[:, :usable]
    tied = values[: usable - 1] - values[1:usable] <= gap * values[0]
    first = last = rank
    while first > 0 and tied[first - 1]:
        first -= 1
    if first == rank:
        return vectors[:, :rank]
    while last < usable and tied[last - 1]:
        last += 1
    kept = list(vectors[:, :first].T)
    rest = vectors[:, first:last] @ vectors[:, first:last].T  # the projection onto the span
    while len(kept) < rank:
        # The diagonal adds up to the dimension that is left, at least 1, so that an entry is at least 1 / n.
        p = int(np.argmax(rest.diagonal() > 0.5 / n))
        direction = rest[p] / np.sqrt(rest[p, p])
        rest -= np.outer(direction, direction)
        kept.append(direction)
    return np.array(kept).T


@cython.cclass
class NystroemRule(SpanRule):
    """Gradient descent, from the budget-th support on in the span of eigenvectors of the Gram matrix."""

    eta: cython.double
    rank: cython.Py_ssize_t

    def __init__(self, budget: int, eta: float, rank: int) -> None:
        SpanRule.__init__(self, budget, ledger=("tau", "norm"), inverse=True, full_rank=False)
        self.eta = eta
        self.rank = rank

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return 1.0 - self.y * self.margin > self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.note(TAU, self.eta)
        if self.size() < self.budget:
            self.add(self.eta * self.y)
            if self.size() == self.budget:
                self.choose_features()
        else:
            self.project_row()  # the row's image is that of V D^-1 V' k
            self.move(self.eta * self.y, self._direction)
        return 1

    @cython.cfunc
    @cython.with_gil
    @cython.exceptval(-1)
    def choose_features(self) -> cython.int:
        """Keep eigenvectors V of the largest eigenvalues of the Gram matrix K, and project f onto them."""
        slots = self.supports.order[: self.budget]
        gram = self.gram[np.ix_(slots, slots)]
        V = leading_eigenvectors(gram, self.rank, SINGLE_GAP if self.supports.single else DOUBLE_GAP)
        # With eigenvectors V' K V is the diagonal matrix D; after a choice among ties it is so up to the gap.
        inverse = V @ np.linalg.solve(V.T @ gram @ V, V.T)
        self.inverse[np.ix_(slots, slots)] = inverse
        coef = self.coefficients()
        self.direction[:] = 0.0
        self.direction[slots] = inverse @ (gram @ coef) - coef
        self.move(1.0, self._direction)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class NOGD(KernelClassifier):
    """Online gradient descent on Nystroem features of the first rows with a loss.

    The first `budget` rows with a hinge loss become supports. From then on the hypothesis is a linear
    function of the `rank` largest eigenvectors of their Gram matrix. Supports never change afterwards, so it
    does not suit streams whose rows drift to other places.

    Parameters
    ----------
    budget : int, default=100
        The number of supports; with more than two classes, per class.
    rank : int, default=None
        The largest number of eigenvectors; by default a fifth of the budget.
    eta : float, default=0.2
        The step.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), O(B^2) per update, and O(B^3) once. Memory: O(B d + B^2).

    The regret bound of the paper depends on how well the eigenvectors represent the kernel matrix of the
    whole stream, which is not known; so there is no certificate.

    When the features are chosen, the hypothesis is projected onto them, as in the paper. Eigenvectors with
    an eigenvalue below 1e-6 of the largest are not used. Where the rank divides eigenvectors whose
    eigenvalues differ by at most 1e-7 (1e-3 for float32 rows) of the largest, those nearest to the oldest
    supports are used; this is our choice. A hinge loss of at most 1e-9 (1e-4 for float32 rows) counts as 0.

    References
    ----------
    Lu, Hoi, Wang, Zhao, Liu: Large Scale Online Kernel Learning (2016).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import NOGD
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NOGD(budget=100, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 168 mistakes, error rate 0.0935, 100 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "rank": [Interval(Integral, 1, MOST_SUPPORTS, closed="both"), None],
        "eta": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        budget: int = 100,
        rank: int | None = None,
        eta: float = 0.2,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.rank = rank
        self.eta = eta

    def _rule(self, generator: np.random.Generator) -> NystroemRule:
        rank = max(1, self.budget // 5) if self.rank is None else self.rank
        return NystroemRule(self.budget, self.eta, rank)
