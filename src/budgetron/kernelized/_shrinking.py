"""The Shrinking Perceptron (Forgetron paper, section 4)."""

from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import PHI, Rule
from sklearn.utils._param_validation import Interval

from budgetron import bounds
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class ShrinkingRule(Rule):
    """On a mistake, store the example and shrink the hypothesis."""

    phi: cython.double

    def __init__(self, phi: float) -> None:
        Rule.__init__(self, ledger=("phi", "norm"))
        self.phi = phi

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.add(self.y)  # (19), f'_t = f_t + y_t K(x_t, .)
        self.shrink(self.phi)  # f_{t+1} = phi f'_t
        self.note(PHI, self.phi)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class ShrinkingPerceptron(KernelClassifier):
    """A Perceptron that multiplies its hypothesis by a constant factor after each mistake.

    Old mistakes lose weight, but none is removed, so memory grows as the Perceptron's does. Use it to study
    the effect of shrinking alone; `Forgetron` combines shrinking with removal.

    Parameters
    ----------
    shrink : float in (0, 1], default=0.99
        The factor phi. At 1 this is `KernelPerceptron`.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(m d) for m supports. Memory: O(m d). Coefficients that underflow become
    0, but their supports stay.

    The number of mistakes is at most ||g||^2 (1 - log prod Phi_t) + 2 * (sum of hinge losses of g) for every
    g with ||g|| <= U, where Phi_t depends on U (Forgetron paper, section 4, eq. 24).

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 4.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import ShrinkingPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ShrinkingPerceptron(shrink=0.98, gamma=0.001)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 95 mistakes, error rate 0.0529, 95 supports)
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "shrink": [Interval(Real, 0.0, 1.0, closed="right")]
    }

    def __init__(
        self,
        shrink: float = 0.99,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.shrink = shrink

    def _rule(self, generator: np.random.Generator) -> ShrinkingRule:
        return ShrinkingRule(self.shrink)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        def bound(run: Run, check: bounds.Check) -> float:
            on = run.trace.mistakes
            shrinking = bounds.log_shrinking(run.ledger("phi")[on], run.ledger("norm")[on], run.norm)
            return bounds.shrinking_perceptron(run.norm, run.losses, shrinking, run.radius, check=check)

        return [FunctionTheorem("shrinking_perceptron", bound)]
