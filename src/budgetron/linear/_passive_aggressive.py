"""Linear Passive-Aggressive learning: PA, PA-I (002 section 5) and PA-II."""

from numbers import Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.weighted_classifier import CLASS_WEIGHT, WeightedClassifier


@cython.cclass
class PassiveAggressiveRule(LinearRule):
    """On a margin error, the smallest step that gives the example a margin of 1, or a softened one."""

    most: cython.double  # the largest tau
    slack: cython.double  # added to ||x||^2

    def __init__(self, d: int, single: bool, most: float, slack: float) -> None:
        LinearRule.__init__(self, d, single, reach=most if most < np.inf else 0.0)
        self.most = most
        self.slack = slack

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_update(self) -> cython.bint:
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


@cython.annotation_typing(False)  # here they are for readers
class PassiveAggressive(WeightedClassifier, LinearClassifier):
    """Passive-Aggressive learning: just far enough to be right about the example at hand.

    Has no step size to tune, learns from correct but unsure predictions too, and follows
    streams that change quickly.

    Parameters
    ----------
    C : float, default=1.0
        How far a single example may move the weights; smaller is calmer, and better where
        labels are noisy. Without effect for "PA".
    variant : {"PA", "PA-I", "PA-II"}, default="PA-I"
        With loss = 1 - y w . x, the step is loss / ||x||^2 for "PA", at most C for "PA-I", and
        loss / (||x||^2 + 1 / (2 C)) for "PA-II".
    class_weight : dict, default=None
        Weights of classes, 1 for those that are not named. A row of weight w is learned with C w.

    Notes
    -----
    Cost per round: O(non-zeros); memory O(d). The hyperplane passes through the origin.

    *From scikit-learn.* ``PassiveAggressiveClassifier(C=C)`` is this learner with
    ``variant="PA-I"``, and with ``loss="squared_hinge"`` it is "PA-II". What it does
    besides:

    - it adds an intercept: give the rows a constant feature, for instance by
      ``sklearn.preprocessing.PolynomialFeatures(1)``, whose weight is the first (it also counts in
      ||x||^2, as it should; there it does not);
    - it shuffles, and its ``fit`` makes up to 1,000 passes: here ``fit`` is one pass in the
      given order. For more, call ``partial_fit`` on shuffled rows as often as you like;
    - in place of ``average=True``, put `budgetron.batch.AveragedClassifier` around this learner: it averages
      the weights that predicted, where scikit-learn averages those after each row.

    With ``shuffle=False`` and ``fit_intercept=False`` it makes the same steps, and the same weights
    come out.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CLASS_WEIGHT | {
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "variant": [StrOptions({"PA", "PA-I", "PA-II"})],
    }

    def __init__(
        self, C: float = 1.0, variant: str = "PA-I", *, class_weight: dict[Any, float] | None = None
    ) -> None:
        self.C = C
        self.variant = variant
        self.class_weight = class_weight

    def _rule(self, d: int, single: bool) -> PassiveAggressiveRule:
        most = self.C if self.variant == "PA-I" else np.inf
        slack = 1 / (2 * self.C) if self.variant == "PA-II" else 0.0
        return PassiveAggressiveRule(d, single, most, slack)

    def _importances(self, X: Any, labels: NDArray[Any], weights: Any) -> NDArray[np.float64] | None:
        importances = super()._importances(X, labels, weights)
        if importances is not None and self.variant == "PA":
            raise ValueError('variant="PA" has no C for weights to weigh; use "PA-I" or "PA-II"')
        return importances
