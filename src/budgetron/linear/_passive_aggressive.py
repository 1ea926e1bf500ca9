"""Linear Passive-Aggressive learning: PA, PA-I (Projectron paper, section 5) and PA-II."""

from typing import ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.parameters import Constraints
from budgetron._base.passive_aggressive import PA_VARIANTS, PassiveAggressiveClassifier, step_limits
from budgetron._base.weighted_classifier import CLASS_WEIGHT
from budgetron._util.types import Label


@cython.cclass
class PassiveAggressiveRule(LinearRule):
    """On a margin error, take the smallest step that gives the example a margin of 1, or a limited one."""

    most: cython.double  # the largest tau
    slack: cython.double  # added to ||x||^2

    def __init__(self, d: int, single: bool, intercept: bool, most: float, slack: float) -> None:
        LinearRule.__init__(self, d, single, reach=most if most < np.inf else 0.0, intercept=intercept)
        self.most = most
        self.slack = slack

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        return self.y * self.margin < 1.0  # loss > 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        loss: cython.double = 1.0 - self.y * self.margin
        if self.importance == 0.0:
            return 1
        square: cython.double = self.square + self.slack / self.importance
        # A row of zeros cannot gain a margin by any step.
        tau: cython.double = loss / square if square > 0.0 else 0.0
        if tau > self.most * self.importance:
            tau = self.most * self.importance
        self.note(TAU, tau)
        self.add(tau * self.y)
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class PassiveAggressive(PassiveAggressiveClassifier, LinearClassifier):
    """Passive-Aggressive learning: the smallest step that classifies the current example with a margin of 1.

    Use it on streams that change quickly. It has no step size to tune, and also learns from correct
    predictions with a margin below 1. On noisy labels use a small `C`, or `AROW`.

    Parameters
    ----------
    C : float, default=1.0
        Limits how far a single example moves the weights; use smaller values for noisy labels. No effect for
        "PA".
    variant : {"PA", "PA-I", "PA-II"}, default="PA-I"
        With loss = 1 - y w . x, the step is loss / ||x||^2 for "PA", at most C for "PA-I", and
        loss / (||x||^2 + 1 / (2 C)) for "PA-II".
    class_weight : dict, default=None
        Weights of classes; classes that are not listed have weight 1. A row of weight w is learned with C w.
    fit_intercept : bool, default=True
        Whether the hyperplane may have an offset from the origin, which is learned as the weight of a
        constant feature of 1. So ||x||^2 is one more.

    Notes
    -----
    Cost per round: O(non-zeros). Memory: O(d). No mistake bound is evaluated by `certify`.

    *From scikit-learn.* ``PassiveAggressiveClassifier(C=C)`` corresponds to ``variant="PA-I"`` here, and with
    ``loss="squared_hinge"`` to "PA-II". There are three differences:

    - The constant feature of the intercept counts in ||x||^2, so that a step gives the row a margin of 1.
      scikit-learn's intercept does not count.
    - Its ``fit`` shuffles the rows and makes up to 1,000 passes. Here ``fit`` is one pass in the given order.
      For more passes, call ``partial_fit`` on shuffled rows.
    - Instead of ``average=True``, wrap this learner in `budgetron.batch.AveragedClassifier`. It averages the
      weights that predicted each row; scikit-learn averages the weights after each row.

    With ``shuffle=False`` and ``fit_intercept=False`` both make the same steps and have the same weights.

    References
    ----------
    Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online Passive-Aggressive Algorithms (2006).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import PassiveAggressive
    >>> X, y = load_digits(return_X_y=True)
    >>> PassiveAggressive().progressive_fit(X, y % 2)
    Trace(1797 rounds, 222 mistakes, error rate 0.1235)
    """

    _parameter_constraints: ClassVar[Constraints] = PA_VARIANTS | CLASS_WEIGHT | FIT_INTERCEPT

    def __init__(
        self,
        C: float = 1.0,
        variant: str = "PA-I",
        *,
        class_weight: dict[Label, float] | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.C = C
        self.variant = variant
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept

    def _rule(self, d: int, single: bool) -> PassiveAggressiveRule:
        most, slack = step_limits(self.variant, self.C)
        return PassiveAggressiveRule(d, single, self.fit_intercept, most, slack)
