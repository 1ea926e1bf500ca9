"""AROW, adaptive regularization of weights: a second-order learner that is not in the five papers."""

from numbers import Real
from typing import Any, ClassVar

import cython
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.images import check_second_order, linear_images
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.loss_classifier import LOSS_PARAMETERS
from budgetron._base.mergeable import MergeableClassifier
from budgetron._base.natural import Natural, linear_gaussian, linear_natural
from budgetron._base.parameters import Constraints
from budgetron._base.sizes import with_params
from budgetron._base.theorems import DeclaredTheorem, Images, ImageTheorem, Run
from budgetron._core.linear import LinearRule
from budgetron._util.checks import State
from budgetron._util.types import Floats, Label, Matrix
from budgetron.bounds import Check
from budgetron.linear._arow_rules import MOST_FULL, DiagonalRule, FullRule, diagonal_rule


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class AROW(MergeableClassifier, LinearClassifier):
    """Adaptive regularization of weights: smaller steps along directions that were updated often.

    It keeps a Gaussian distribution over weight vectors. Each margin error moves its mean and reduces its
    variance along the example. Use it for correlated features, features of different scale, and noisy labels,
    where it is clearly the best of the linear learners. With more than two classes, there is one mean for
    each class. All classes have the same covariance, so that many classes cost little more than two.

    Parameters
    ----------
    r : float, default=1.0
        Noise variance: the loss of each row is divided by it. With a larger r, each row has less influence.
        The result seldom depends much on it.
    covariance : {"auto", "full", "diagonal"}, default="auto"
        "full" keeps the d x d covariance: the fewest mistakes. "diagonal" keeps one variance per feature: for
        wide rows. "auto" is "full" up to 1000 features and "diagonal" above. If features that are added later
        (as river does) bring their number above 1000, "auto" changes from "full" to "diagonal": the variances
        stay, and the covariances are dropped.
    loss : {"auto", "hinge", "logistic", "squared"}, default="auto"
        "hinge" is the loss of the paper, and best for noisy labels. "logistic" is usually better for other
        streams and has probabilities. "squared" learns from every row. "auto" is "hinge" for two classes and
        "logistic" for more; classes that are admitted later do not change it (see `loss_`).
    prior : float, default=None
        Variance of each weight before the first update. None means 100 for the logistic loss and 1 for the
        others. Predictions depend on prior / r only.
    forget : float, default=1.0
        The part of what was learned that each update keeps. With 0.999, updates are forgotten after about a
        thousand others. For streams that change.
    class_weight : dict, default=None
        The weight of each class, 1 for classes that are not named. The loss of a row is multiplied by the
        weight of its class and its `sample_weight`. A row of weight 0 is predicted and not learned.
    fit_intercept : bool, default=True
        Whether the hyperplanes may have an offset from the origin. It is the weight of a constant feature of
        1: it has a variance like the other weights, also covariances if these are full, and the bound below
        holds for rows (1, x) and competitors with an intercept.

    Attributes
    ----------
    loss_ : str
        The loss, "hinge", "logistic" or "squared".

    Notes
    -----
    Class c has the mean w_c and the score s_c = w_c . x. Let y_c be 1 for the class of the row and -1 for the
    others. Two classes have one mean w, and the score of the first class is -w . x.

    A row is learned (a margin error) if y_c s_c < 1 for some c with the hinge loss; if the probability of the
    other classes is at least 0.03 with the logistic loss; and always with the squared loss. Then, with
    v = x' Sigma x, each class moves by::

        w_c += a_c Sigma x,     Sigma -= Sigma x x' Sigma / (v + r / h)

    where a_c minimizes the change of the Gaussian plus the loss of the class divided by r, and h is the mean
    of the curvatures of the losses at the minimum:

    - hinge: a_c = (y_c - s_c) / (v + r) and curvature 1 if y_c s_c < 1, otherwise both are 0. With two
      classes this is the algorithm of the paper: it minimizes the relative entropy to the previous Gaussian,
      plus the squared hinge loss of the mean and the variance v, each divided by 2 r.
    - logistic: a_c = y_c g / r, where g = sigmoid(-y_c s_c - v g / r), found by Newton's method and
      bisection; curvature g (1 - g), with more than two classes three times this.
    - squared: a_c = (y_c - s_c) / (v + r), curvature 1. This is recursive least squares.

    With a diagonal covariance, 1 / Sigma_ii += x_i^2 h / r instead. A row of weight b is learned with r / b.
    After an update, with `forget` f < 1::

        w_c *= sqrt(f),     Sigma = f Sigma + (1 - f) prior

    which moves the Gaussian back towards the one before the first update. tau in the ledger is the norm of
    all a_c, and norm is the norm of all means.

    Without forgetting, variances only become smaller: after many margin errors, steps along the directions of
    these rows are small, and the learner adapts slowly to a stream that changes. After a million rows of one
    class alone, a full covariance needed 460,000 rows of the other class to predict nine of ten correctly,
    and a diagonal one 5,000. For streams that change, use `forget`, or `PassiveAggressive` or
    `BudgetClassifier`.

    The full covariance is stored as a product of triangular factors, so that it stays positive for features
    of any scale. With `forget` it is stored as it is. Then the variance of a direction never falls below
    1e-15 of its initial value, the limit of rounding.

    Cost per round with C outputs (1 for two classes): O(C non-zeros) without an update; with an update
    O(d^2 + C d), or O(C non-zeros) if diagonal. Memory: 4 d^2 + 8 C d bytes, or 8 (C + 1) d if diagonal. An
    intercept counts as a feature.

    Guarantee for two classes and the hinge loss, without forgetting and weights: `bounds.second_order`, which
    `certify` evaluates after a run with ``ledger=True``. For the logistic loss it evaluates
    `bounds.second_order_logistic`. There is no such bound for the squared loss.

    References
    ----------
    Crammer, Kulesza, Dredze: Adaptive Regularization of Weight Vectors (2009).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import AROW
    >>> X, y = load_digits(return_X_y=True)
    >>> AROW().progressive_fit(X, y % 2)
    Trace(1797 rounds, 180 mistakes, error rate 0.1002)
    """

    _parameter_constraints: ClassVar[Constraints] = (
        LOSS_PARAMETERS
        | FIT_INTERCEPT
        | {
            "r": [Interval(Real, 0.0, None, closed="neither")],
            "covariance": [StrOptions({"auto", "full", "diagonal"})],
        }
    )
    _joint: ClassVar[bool] = True
    _learned_names: ClassVar[frozenset[str]] = LinearClassifier._learned_names | {"loss_"}

    def __init__(
        self,
        r: float = 1.0,
        covariance: str = "auto",
        loss: str = "auto",
        *,
        prior: float | None = None,
        forget: float = 1.0,
        class_weight: dict[Label, float] | None = None,
        fit_intercept: bool = True,
    ) -> None:
        self.r = r
        self.covariance = covariance
        self.loss = loss
        self.prior = prior
        self.forget = forget
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept

    def _make(self, X: Matrix, outputs: int) -> list[LinearRule]:
        self._choose_loss(outputs)
        return LinearClassifier._make(self, X, outputs)

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[LinearRule]:
        self._restore_loss(found)
        return LinearClassifier._restore(self, states, found, dtype)

    def _for_features(self, d: int) -> "AROW":
        if self.covariance != "auto":
            return self
        loss = getattr(self, "loss_", self.loss)  # the copy has no fitted attributes
        return with_params(self, covariance="full" if d <= MOST_FULL else "diagonal", loss=loss)

    def _joint_rule(self, d: int, single: bool, outputs: int) -> FullRule | DiagonalRule:
        loss = getattr(self, "loss_", self._loss_for(outputs))
        rule = FullRule if self.covariance == "full" else DiagonalRule
        prior = self._prior_for(loss)
        return rule(d, single, self.fit_intercept, self.r, loss, prior, self.forget, outputs)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        name = "second_order_logistic" if self.loss_ == "logistic" else "second_order"
        return [ImageTheorem(name, self._images, float(self.r), self._prior_for(self.loss_))]

    def _images(self, run: Run, more: Floats, check: Check) -> Images:
        check_second_order(self, check)
        diagonal = isinstance(self._learners[0], DiagonalRule)
        return linear_images(run, float(self.r), self._prior_for(self.loss_), diagonal, self.loss_)

    def _add_features(self, d: int) -> None:
        if self._started_with["covariance"] == "auto" and self.n_features_in_ <= MOST_FULL < d:
            self._learners = [diagonal_rule(rule) for rule in self._learners]
        LinearClassifier._add_features(self, d)

    def _natural(self) -> Natural:
        return linear_natural(self._learners[0].state())

    def _state_of(self, natural: Natural) -> State:
        return linear_gaussian(self._learners[0].state(), natural, self._prior_for(self.loss_))
