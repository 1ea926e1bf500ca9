"""Nystroem online gradient descent (Lu, Hoi, Wang, Zhao, Liu 2016)."""

from numbers import Integral, Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import TAU
from cython.cimports.budgetron._core.span import SpanRule
from sklearn.utils._param_validation import Interval

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron.kernels import KernelFunction, Normalized

# Eigenvalues of the Gram matrix below this share of the largest one count as 0.
SMALLEST_EIGENVALUE = cython.declare(cython.double, 1e-6)


@cython.cclass
class NystroemRule(SpanRule):
    """Gradient descent, from the budget-th support on in the span of eigenvectors of the Gram matrix."""

    eta: cython.double
    rank: cython.Py_ssize_t

    def __init__(self, budget: int, eta: float, rank: int) -> None:
        SpanRule.__init__(self, budget, ledger=("tau", "norm"), inverse=True)
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
        """Keep eigenvectors V of the largest eigenvalues D of the Gram matrix, and project f onto them."""
        slots = self.supports.order[: self.budget]
        values, vectors = np.linalg.eigh(self.gram[np.ix_(slots, slots)])
        kept = np.flatnonzero(values > SMALLEST_EIGENVALUE * values.max())
        kept = kept[max(0, len(kept) - self.rank) :]  # eigenvalues are in ascending order
        V = vectors[:, kept]
        self.inverse[np.ix_(slots, slots)] = V / values[kept] @ V.T
        coef = self.coefficients()
        self.direction[:] = 0.0
        self.direction[slots] = V @ (V.T @ coef) - coef
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
    an eigenvalue below 1e-6 of the largest are not used. A hinge loss of at most 1e-9 (1e-4 for float32 rows)
    counts as 0.

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
