"""The margin Perceptron (Mohri et al., figure 8.12)."""

from numbers import Real
from typing import ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from sklearn.utils._param_validation import Interval

from budgetron import bounds
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, FunctionTheorem, Run


@cython.cclass
class MarginRule(LinearRule):
    """Update if the example is closer to the hyperplane than half the margin."""

    half: cython.double  # rho / 2

    def __init__(self, d: int, single: bool, intercept: bool, margin: float) -> None:
        LinearRule.__init__(self, d, single, reach=1.0, intercept=intercept)
        self.half = 0.5 * margin

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        # w = 0 or y w . x / ||w|| < rho / 2
        return self.norm2 <= 0.0 or self.y * self.margin < self.half * self.norm()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.note(TAU, 1.0)
        self.add(self.y)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class MarginPerceptron(LinearClassifier):
    """A Perceptron that also updates on examples that are too close to the hyperplane.

    Use it for separable rows if the result must have a margin: after enough passes its margin is at least
    half of `margin`, while that of the Perceptron may be arbitrarily small. On noisy rows use `AROW`.

    Parameters
    ----------
    margin : float, default=0.1
        rho: an update is made if the distance of an example from the hyperplane is below rho / 2. Larger
        values mean more updates. Choose it relative to the length of the rows.
    fit_intercept : bool, default=True
        Whether the hyperplane may have an offset from the origin, which is learned as the weight of a
        constant feature of 1.

    Notes
    -----
    Cost per round: O(non-zeros). Memory: O(d). ||w|| is updated, not recomputed. The mistakes of a trace are
    rounds with y w . x <= 0; `updates_` counts the updates, which are more.

    If the rows can be separated with margin rho and lie within r of the origin, at most 16 (r / rho)^2
    updates are made (Mohri et al., exercise 8.6). With an intercept, this holds for rows (1, x): r^2 is one
    more, distances are those from hyperplanes through the origin of this space, and the intercept is one of
    the numbers of the competitor.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.12 and
    exercise 8.6.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import MarginPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MarginPerceptron(margin=10.0)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 219 mistakes, error rate 0.1219)
    >>> model.updates_
    618
    """

    _parameter_constraints: ClassVar[Constraints] = FIT_INTERCEPT | {
        "margin": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(self, margin: float = 0.1, *, fit_intercept: bool = True) -> None:
        self.margin = margin
        self.fit_intercept = fit_intercept

    def _rule(self, d: int, single: bool) -> MarginRule:
        return MarginRule(d, single, self.fit_intercept, self.margin)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [FunctionTheorem("margin_perceptron", self._bound, separates=True, count=self.updates_)]

    def _bound(self, run: Run, check: bounds.Check) -> float:
        reached = float(run.margins.min()) / run.norm if run.norm else 0.0
        enough = reached >= self.margin * (1 - bounds.ROUNDING)
        bounds.assume(check, enough, f"a margin of the competitor of at least {self.margin:.6g}", reached)
        return bounds.margin_perceptron(run.radius, self.margin, check=check)
