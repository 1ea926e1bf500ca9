"""The Shrinking Perceptron (Forgetron paper, section 4), and the shifting Perceptron, a case of it."""

from numbers import Real
from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import PHI, Rule
from sklearn.utils._param_validation import Interval, StrOptions

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


@cython.cclass
class ShiftingRule(Rule):
    """On the M-th mistake, store the example and multiply the hypothesis by M / (M + rate - 1).

    The shifting Perceptron sets w to (1 - a) w + a y x with a = rate / (rate + M - 1). This rule computes a
    positive multiple of w, which predicts the same, so that the coefficient of a new support is its label.
    """

    rate: cython.double

    def __init__(self, rate: float) -> None:
        Rule.__init__(self, ledger=("phi", "norm"))
        self.rate = rate

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        phi: cython.double = self.mistakes / (self.mistakes + self.rate - 1.0)
        self.add(self.y)
        self.shrink(phi)
        self.note(PHI, phi)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class ShrinkingPerceptron(KernelClassifier):
    """A Perceptron that multiplies its hypothesis by a factor of at most 1 after each mistake.

    Old mistakes lose weight, but none is removed, so memory grows as the Perceptron's does. Use it to study
    the effect of shrinking alone; `Forgetron` combines shrinking with removal.

    Parameters
    ----------
    shrink : float in (0, 1], default=0.99
        The factor phi of "constant". At 1 this is `KernelPerceptron`.
    variant : {"constant", "shifting"}, default="constant"
        "constant" multiplies by `shrink`. "shifting" multiplies by M / (M + rate - 1) after the M-th mistake,
        so that weights decay as a power of M; its bound allows competitors that drift.
    rate : float, default=2.0
        At least 1. A larger `rate` of "shifting" forgets faster. At 1 this is `KernelPerceptron`.
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

    The number m of mistakes of "shifting" is at most (sum of hinge losses) + sqrt(m) R (U sqrt(2 rate - 1) +
    S / sqrt(2 rate - 1)) for every sequence of competitors of norm at most U whose total drift is S, if
    sqrt(k(x, x)) <= R (`bounds.shifting_perceptron`, which has the proof).

    References
    ----------
    Dekel, Shalev-Shwartz, Singer: The Forgetron (2008), section 4.
    Cavallanti, Cesa-Bianchi, Gentile: Tracking the best hyperplane with a simple budget Perceptron (2007).

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
        "shrink": [Interval(Real, 0.0, 1.0, closed="right")],
        "variant": [StrOptions({"constant", "shifting"})],
        "rate": [Interval(Real, 1.0, None, closed="left")],
    }

    def __init__(
        self,
        shrink: float = 0.99,
        variant: str = "constant",
        *,
        rate: float = 2.0,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.shrink = shrink
        self.variant = variant
        self.rate = rate

    def _rule(self, generator: np.random.Generator) -> ShrinkingRule | ShiftingRule:
        return ShrinkingRule(self.shrink) if self.variant == "constant" else ShiftingRule(self.rate)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        any_shrinking = FunctionTheorem("shrinking_perceptron", ledger_bound)
        if self.variant == "constant":
            return [any_shrinking]
        return [FunctionTheorem("shifting_perceptron", self._shifting_bound, drifts=True), any_shrinking]

    def _shifting_bound(self, run: Run, check: bounds.Check) -> float:
        losses = float(np.maximum(0.0, 1.0 - run.margins[run.trace.mistakes]).sum())
        return bounds.shifting_perceptron(run.norm, losses, self.rate, run.shift, run.radius, check=check)


def ledger_bound(run: Run, check: bounds.Check) -> float:
    """Return the bound of section 4, from the shrinking that the ledger records."""
    on = run.trace.mistakes
    # Nothing is removed, so ||f|| after the round is the norm after shrinking.
    shrinking = bounds.log_shrinking(run.ledger("phi")[on], run.ledger("norm")[on], run.norm)
    return bounds.shrinking_perceptron(run.norm, run.losses, shrinking, run.radius, check=check)
