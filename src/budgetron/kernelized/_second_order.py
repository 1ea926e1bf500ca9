"""The second-order Projectron, beyond the five papers: AROW in the span of the Projectron's supports."""

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, cast

import cython
import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from budgetron._base.images import (
    check_second_order,
    learned_rounds,
    linear_part,
    removals_of,
    row_images,
    span_images,
)
from budgetron._base.kernel_classifier import BudgetedClassifier
from budgetron._base.loss_classifier import LOSS_PARAMETERS
from budgetron._base.mergeable import MergeableClassifier
from budgetron._base.natural import Natural, digest_of_rows, kernel_gaussian, kernel_natural
from budgetron._base.theorems import DeclaredTheorem, Images, ImageTheorem, Run
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron._util.checks import State
from budgetron._util.types import Floats, Label, Matrix
from budgetron.bounds import Check, assume
from budgetron.kernelized._second_order_rule import WIDE, SecondOrderRule
from budgetron.kernels import KernelFunction, Normalized

# The smallest threshold, in parts of the largest k(x, x), with which a bound of float32 rows is evaluated.
LEAST_THRESHOLD = 1e-6


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class SecondOrderProjectron(MergeableClassifier, BudgetedClassifier):
    """A second-order learner in the span of a few supports and of the features.

    It is the most accurate single kernel learner here. It stores rows that are novel: far from the span of
    the supports, by the Projectron's test. It keeps a Gaussian over the functions in that span and over
    linear functions. Steps are large along directions with a large variance, and small along directions where
    many rows were seen. When the stream changes, supports that no longer contribute to the margins are
    replaced by novel rows. With more than two classes, there is one mean for each class. All classes have the
    same supports and the same covariance, so that many classes cost little more than two.

    Parameters
    ----------
    budget : int, default=300
        Largest number of supports. When it is reached, new supports come only by exchange (see the notes).
    threshold : float, default=0.02
        A margin error becomes a support if the squared distance of its image from the span of the supports
        is above this. The distance is at most k(x, x), which is 1 for "rbf".
    r : float, default=1.0
        Noise variance: the loss of each row is divided by it. With a larger r, each row has less influence.
    linear : bool, default=True
        Whether the hypothesis has a linear part, as if the kernel were k(x, x') + gamma x . x' + 1. With more
        than 1000 features, features have variances but no covariances.
    loss : {"auto", "hinge", "logistic", "squared"}, default="auto"
        "hinge" is the loss of AROW, and best for noisy labels. "logistic" is usually better for other streams
        and has probabilities. "squared" learns from every row. "auto" is "hinge" for two classes and
        "logistic" for more; classes that are admitted later do not change it (see `loss_`).
    prior : float, default=None
        Variance of each coordinate before the first update. None means 100 for the logistic loss and 1 for
        the others. Predictions depend on prior / r only.
    forget : float, default=1.0
        The part of what was learned that each update keeps. With 0.999, updates are forgotten after about a
        thousand others. For streams that change.
    class_weight : dict, default=None
        The weight of each class, 1 for classes that are not named. The loss of a row is multiplied by the
        weight of its class and its `sample_weight`. A row of weight 0 is predicted and not learned.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Threads that compute the kernel values of a batch. None means 1, -1 all cores.

    Attributes
    ----------
    loss_ : str
        The loss, "hinge", "logistic" or "squared".

    Notes
    -----
    Let K = L L' be the Gram matrix of the supports. A row with kernel values k has the coordinates
    z = L^-1 k in an orthonormal basis of their span, and phi = (1, sqrt(gamma) x, z) in all. Class c has the
    mean w_c and the score s_c = w_c . phi. Let y_c be 1 for the class of the row and -1 for the others. Two
    classes have one mean w, and the score of the first class is -w . phi.

    A row is learned (a margin error) if y_c s_c < 1 for some c with the hinge loss; if the probability of the
    other classes is at least 0.03 with the logistic loss; and always with the squared loss, where a row with
    y_c s_c < 1 is a margin error. With more than two classes and the squared loss, the score of the row's
    class must exceed the others by 1. A margin error with ||delta||^2 = k(x, x) - ||z||^2 above the threshold
    first becomes a support; its coordinate in phi is ||delta||, of mean 0 and variance `prior`. Then, with
    v = phi' Sigma phi, each class moves by::

        w_c += a_c Sigma phi,     Sigma -= Sigma phi phi' Sigma / (v + r / h)

    where a_c minimizes the change of the Gaussian plus the loss of the class divided by r, and h is the mean
    of the curvatures of the losses at the minimum:

    - hinge: a_c = (y_c - s_c) / (v + r) and curvature 1 if y_c s_c < 1, otherwise both are 0. With two
      classes this is AROW.
    - logistic: a_c = y_c g / r, where g = sigmoid(-y_c s_c - v g / r), found by Newton's method and
      bisection; curvature g (1 - g), with more than two classes three times this. The factor was chosen on
      streams of letters and digits.
    - squared: a_c = (y_c - s_c) / (v + r), curvature 1. This is recursive least squares.

    A row of weight b is learned with r / b. After an update, with `forget` f < 1::

        w_c *= sqrt(f),     Sigma = f Sigma + (1 - f) prior

    which moves the Gaussian back towards the one before the first update.

    Exchange: when as many novel margin errors as the budget were not stored because the budget was full,
    supports with a small share of the margins are removed. The share of a support is its |coefficient|,
    summed over the classes, times the sum of |k(x, s)| over the margin errors since the budget was full, or
    since the last exchange.
    Supports with less than a tenth of the mean share are removed, the smallest first, and at most a quarter
    of the budget. Shares with a relative difference below 1e-9 (1e-6 for float32 rows) are equal;
    of these the oldest is removed first. The mean and Sigma are restricted to the remaining span. New
    supports start with mean 0 and variance `prior`. If supports are so nearly dependent that rounding would
    make the restriction inaccurate, none is removed. `support_sizes` of a trace decreases in the round of an
    exchange.

    A ||delta||^2 below 1e-9 k(x, x) (1e-4 for float32 rows) counts as 0, because rounding dominates it.

    The variance of a direction never falls below 1e-15 of its initial value, the limit of rounding. Rows
    should be on a scale comparable to r: if gamma ||x||^2 or k(x, x) is 1e12 times as large, little is
    learned, and a step may overflow, which raises an error.

    Cost per round, with m supports and n = m + d + 1 coordinates: one kernel row, O(m d); in batches O(m^2)
    for z; and O(n^2) per update. An exchange takes O(m^3) after at least m updates, so O(m^2) per update, and
    about 24 m^2 + 8 m d bytes meanwhile. C > 2 classes add O(C n) per round. Memory: 4 n^2 + 4 m^2 bytes, and
    16 n per class, plus the supports.

    The ledger has ||delta||, the variance v before the update, tau, which is the norm of all a_c, and norm,
    the norm of all means.

    Guarantee for two classes, the hinge loss and forget = 1, without weights, and with at most 1000 features
    if there is a linear part: the run is a run of AROW on the vectors phi, padded with zeros. So AROW's bound
    on mistakes holds against every function u of the kernel's space plus a linear function, with its losses
    at the images of the rows in the span at their time (`bounds.second_order`); each exchange adds a term.
    With losses at the rows themselves, there is also a term for the distances ||delta||
    (`bounds.second_order_rows`). The logistic loss has a bound of another form
    (`bounds.second_order_logistic`). `certify` evaluates these after a run with ``ledger=True``. Not proven:
    bounds for the squared loss and for more classes, and bounds under drift. These cases are only measured.

    `fix_supports` ends the search for supports. From then on the run is one of AROW on the vectors phi, and
    models that learned different rows can be merged (`delta`, `merge`).

    References
    ----------
    Orabona, Keshet, Caputo: The Projectron (2008), for the test. Crammer, Kulesza, Dredze: Adaptive
    Regularization of Weight Vectors (2009), for the step.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import SecondOrderProjectron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SecondOrderProjectron(budget=100, gamma=0.0005)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 80 mistakes, error rate 0.0445, 100 supports)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        BudgetedClassifier._parameter_constraints
        | LOSS_PARAMETERS
        | {
            "threshold": [Interval(Real, 0.0, None, closed="left")],
            "r": [Interval(Real, 0.0, None, closed="neither")],
            "linear": ["boolean"],
        }
    )
    _joint: ClassVar[bool] = True
    _learned_names: ClassVar[frozenset[str]] = BudgetedClassifier._learned_names | {"loss_"}

    def __init__(
        self,
        budget: int = 300,
        threshold: float = 0.02,
        r: float = 1.0,
        linear: bool = True,
        loss: str = "auto",
        *,
        prior: float | None = None,
        forget: float = 1.0,
        class_weight: dict[Label, float] | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        BudgetedClassifier.__init__(
            self, budget, kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs
        )
        self.threshold = threshold
        self.r = r
        self.linear = linear
        self.loss = loss
        self.prior = prior
        self.forget = forget
        self.class_weight = class_weight

    def _make(self, X: Matrix, outputs: int) -> list[Learner]:
        self._choose_loss(outputs)
        return BudgetedClassifier._make(self, X, outputs)

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[Learner]:
        self._restore_loss(found)
        return BudgetedClassifier._restore(self, states, found, dtype)

    def _rules(self, outputs: int, generators: Sequence[np.random.Generator]) -> list[Rule]:
        scale = float(np.sqrt(self.gamma_))
        rule = SecondOrderRule(
            self.budget,
            self.threshold,
            self.r,
            self.linear,
            scale,
            self.loss_,
            self._prior_for(self.loss_),
            self.forget,
            outputs,
        )
        return [rule]

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        r, prior = float(self.r), self._prior_for(self.loss_)
        if self.loss_ == "logistic":
            return [ImageTheorem("second_order_logistic", self._span_images, r, prior)]
        return [
            ImageTheorem("second_order", self._span_images, r, prior),
            ImageTheorem("second_order_rows", self._row_images, r, prior),
        ]

    def _span_images(self, run: Run, more: Floats, check: Check) -> Images:
        self._check_theorem(run, check)
        learned = learned_rounds(run, float(self.r), self.loss_)
        return span_images(run, learned, self.support_, removals_of(self, run), self._linear_part(run))

    def _row_images(self, run: Run, more: Floats, check: Check) -> Images:
        self._check_theorem(run, check)
        learned = learned_rounds(run, float(self.r), self.loss_)
        exchanges = int(np.count_nonzero(np.diff(run.trace.support_sizes) < 0))
        single = self._learners[0].dtype == np.float32
        return row_images(run, learned, self.support_, exchanges, self._linear_part(run), more, single)

    def _linear_part(self, run: Run) -> Floats:
        return linear_part(run, float(np.sqrt(self.gamma_)) if self.linear else None)

    def _check_theorem(self, run: Run, check: Check) -> None:
        check_second_order(self, check)
        d = run.X.shape[1]
        limit = f"at most {WIDE} features, for which a linear part has covariances"
        assume(check, not self.linear or d <= WIDE, limit, d)
        if self._learners[0].dtype == np.float32:  # kernel values of nearly dependent supports are rounded
            least = LEAST_THRESHOLD * run.radius**2
            text = f"a threshold of at least {least:.3g} for float32 rows"
            assume(check, self.threshold >= least, text, self.threshold)

    def fix_supports(self) -> "SecondOrderProjectron":
        """Add and remove no supports from now on; only the Gaussian over their span is learned.

        Models with the same fixed supports can be merged. Choose the supports with the first rows of a
        stream: learn these, then fix the supports. `fit` starts again without fixed supports.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        cast(SecondOrderRule, self._learners[0].rule).set_fixed(True)
        return self

    def _natural(self) -> Natural:
        if not cast(SecondOrderRule, self._learners[0].rule).has_fixed_supports():
            raise ValueError(
                "SecondOrderProjectron can be merged over fixed supports only: learners that choose their "
                "own supports learn in different spans, and a Gaussian over one span says nothing about "
                "the other; call fix_supports() after the first rows"
            )
        return kernel_natural(self._learners[0].state())

    def _state_of(self, natural: Natural) -> State:
        return kernel_gaussian(self._learners[0].state(), natural, self._prior_for(self.loss_))

    def _set_hypothesis(self, hypothesis: Learner) -> None:
        MergeableClassifier._set_hypothesis(self, hypothesis)
        self._learners[0].rule.update_coefficients()

    def _coordinates(self) -> dict[str, str]:
        rows = self._learners[0].supports.rows(self._learners[0].supports.order[: self.n_support_])
        return MergeableClassifier._coordinates(self) | {
            "gamma_": repr(self.gamma_),
            "supports": digest_of_rows(rows),
        }
