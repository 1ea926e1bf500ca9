"""Maximisation of the area under the ROC curve on a budget."""

from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.rule import ERROR, TAU
from cython.cimports.budgetron._core.span import SpanRule
from cython.cimports.libc.math import fabs, sqrt
from sklearn.utils._param_validation import Interval

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import MOST_SUPPORTS, Constraints
from budgetron._core.supports import Supports, writeable
from budgetron._util.checks import MOST_ROUNDS, require, require_array, require_int
from budgetron.kernels import KernelFunction, Normalized


@cython.cclass
class PairwiseRule(SpanRule):
    """Gradient descent on the hinge loss of the row's pairs with the supports of the other label.

    The supports are a sample of the rows of each label. A projection may change the sign of a coefficient,
    so the labels are stored.
    """

    eta: cython.double
    labels: object
    _labels: cython.p_double
    # Rows of each label that had a loss, from which the supports are drawn
    negatives: cython.longlong
    positives: cython.longlong
    violators: cython.Py_ssize_t  # pairs of the round that have a loss

    def __init__(self, budget: int, eta: float, generator: np.random.Generator) -> None:
        ledger = ("tau", "error", "removed", "norm")
        self.labels = np.zeros(0)
        SpanRule.__init__(self, budget, ledger=ledger, inverse=True, divides=True, generator=generator)
        self.eta = eta
        self.negatives = self.positives = 0

    def reserve(self, capacity: int) -> None:
        """Make room for `capacity` slots."""
        labels, before = np.zeros(capacity), np.asarray(self.labels)
        labels[: len(before)] = before
        self.labels = labels
        SpanRule.reserve(self, capacity)

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        SpanRule.set_pointers(self)
        labels: cython.size_t = np.asarray(self.labels).ctypes.data
        self._labels = cython.cast(cython.p_double, labels)

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that take memory."""
        arrays: dict[str, Any] = SpanRule.arrays(self) | {"labels": self.labels}
        return arrays

    def __getstate__(self) -> dict[str, Any]:
        own = {"labels": self.labels, "negatives": self.negatives, "positives": self.positives}
        state: dict[str, Any] = SpanRule.__getstate__(self) | own
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.labels = writeable(state["labels"])
        self.negatives, self.positives = state["negatives"], state["positives"]
        SpanRule.__setstate__(self, state)

    def check_slots(self, state: dict[str, Any], supports: Supports) -> None:
        """Check the labels of the supports, and how many rows they were drawn from."""
        SpanRule.check_slots(self, state, supports)
        labels = require_array(state["labels"], np.float64, (supports.capacity,), "labels")
        used = labels[supports.order[: supports.m]]
        require(bool(np.all(np.abs(used) == 1.0)), "the label of a support should be -1 or 1")
        require(not np.any(labels[supports.order[supports.m :]]), "the label of a free slot should be 0")
        rounds = require_int(state["rounds"], 0, MOST_ROUNDS, "rounds")
        for label, name in ((-1.0, "negatives"), (1.0, "positives")):
            require_int(state[name], int(np.sum(used == label)), rounds, name)
        require(state["negatives"] + state["positives"] <= rounds, "a round should have one label")

    def mirror(self) -> None:
        """Replace f by -f, and exchange the labels."""
        SpanRule.mirror(self)
        labels = np.asarray(self.labels)
        np.subtract(0.0, labels, out=labels)  # unlike -0, this is no negative zero
        self.negatives, self.positives = self.positives, self.negatives

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def label_at(self, p: cython.Py_ssize_t) -> cython.double:
        """Return the label of the support at p."""
        return self._labels[self.supports._order[p]]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def count(self, label: cython.double) -> cython.Py_ssize_t:
        """Return the number of supports with this label."""
        p: cython.Py_ssize_t
        n: cython.Py_ssize_t = 0
        for p in range(self.size()):
            n += self.label_at(p) == label
        return n

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        p: cython.Py_ssize_t
        self.violators = 0
        for p in range(self.size()):
            self.violators += self.has_loss(p)
        return self.violators > 0 or self.size() == 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def has_loss(self, p: cython.Py_ssize_t) -> cython.bint:
        """Return whether the row and the support at p are a pair with a loss, 1 - y (f(x_t) - f(x_p)) > 0."""
        value: cython.double = self.factor * self._values[self.supports._order[p]]
        return self.label_at(p) == -self.y and 1.0 - self.y * (self.margin - value) > self.tie_share()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        p: cython.Py_ssize_t
        step: cython.double
        c: cython.double = 0.0  # the first row has no pairs
        if self.violators > 0:
            step = self.eta * self.y / self.count(-self.y)
            self.clear_direction()
            for p in range(self.size()):
                if self.has_loss(p):
                    self._direction[self.supports._order[p]] = -step
            self.move(1.0, self._direction)
            c = step * self.violators
        self.note(TAU, fabs(c))
        self.keep(c)
        self.level()
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def keep(self, c: cython.double) -> cython.int:
        """Add c k(x_t, .). Over the budget, project a support onto the others, or the row itself."""
        square: cython.double
        removed: cython.Py_ssize_t = -1
        if self.y > 0.0:
            self.positives += 1
        else:
            self.negatives += 1
        if self.size() == self.budget:
            removed = self.chosen()
            if removed < 0:
                square = self.project_row()
                self.move(c, self._direction)
                self.note(ERROR, fabs(c) * sqrt(max(self.kxx - square, 0.0)))
                return 1
        if self.store_row(c):
            self._labels[self.added] = self.y
            if removed >= 0:
                self._labels[self.supports._order[removed]] = 0.0
                self.note(ERROR, self.project_and_remove(removed))
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-2)
    def chosen(self) -> cython.Py_ssize_t:
        """Return the position of the support that the row replaces, or -1 if it is not stored."""
        own: cython.Py_ssize_t = self.count(self.y)
        label: cython.double = self.y
        drawn: cython.Py_ssize_t
        p: cython.Py_ssize_t
        if self.size() - own >= own + 2:  # the other label has more than half of the supports
            label = -self.y
            drawn = cython.cast(cython.Py_ssize_t, self.draw_fraction() * (self.size() - own))
        else:  # reservoir sampling
            rows: cython.longlong = self.positives if self.y > 0.0 else self.negatives
            drawn = cython.cast(cython.Py_ssize_t, self.draw_fraction() * rows)
        for p in range(self.size()):
            if self.label_at(p) == label:
                if drawn == 0:
                    return p
                drawn -= 1
        return -1  # a row that is no support was drawn

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def level(self) -> cython.int:
        """Take a step along the gradient of L(f)^2 / 2, at most to L(f) = 0, where L(f) = <f, g>.

        L(f) is the mean of the two labels' mean values of f at their supports.
        """
        p: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        positives: cython.Py_ssize_t = self.count(1.0)
        negatives: cython.Py_ssize_t = self.size() - positives
        value: cython.double = 0.0
        norm: cython.double
        if positives == 0 or negatives == 0:
            return 1
        self.clear_direction()
        for p in range(self.size()):
            slot = self.supports._order[p]
            self._direction[slot] = 0.5 / (positives if self._labels[slot] > 0.0 else negatives)
            value += self._direction[slot] * self.value_at(p)
        norm = self.direction_norm()  # ||g||
        self.move(
            -value * (self.eta if self.eta * norm * norm <= 1.0 else 1.0 / (norm * norm)), self._direction
        )
        return 1


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class AUCMaximizer(KernelClassifier):
    """Maximisation of the area under the ROC curve (AUC) on a budget, for streams with a rare class.

    The AUC is the probability that a row of the rare class has a higher score than another row. Use it to
    rank rows by `decision_function`, for example transactions by how suspicious they are, if the rare class
    has only a few percent of the rows. The supports are a sample of the rows of each label, up to half of
    them for the rare one. For few mistakes use other learners: here a mistake on a rare row counts as much as
    many on other rows.

    Parameters
    ----------
    budget : int, default=100
        The largest number of supports after a round; with more than two classes, per class.
    eta : float, default=2.0
        The step.
    random_state : int, RandomState or None, default=None
        Seed of the sample. The state of the generator is part of the model.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round: one kernel row, O(B d), and O(B^2) per update. Memory: O(B d + B^2), because the Gram
    matrix of the supports and its inverse are stored. No bound on the AUC is implemented.

    In round t, let S be the supports with the other label than the row. The loss of the pairs is the mean
    of max(0, 1 - y (f(x_t) - f(x_i))) over i in S. If it is above 0, the rule

    1. takes a step along its gradient: y eta / |S| times k(x_t, .) - k(x_i, .) for each pair with a loss;
    2. stores the row. With a full budget it replaces a support, which is projected onto the span of the
       others, or it is itself projected and not stored;
    3. takes a step along the gradient of L(f)^2 / 2, where L(f) is the mean of f at the positive supports
       plus that at the negative ones, divided by 2. It ends at L(f) = 0 if it would go further.

    Pairs determine f up to a constant only. Step 3 fixes it: 0 is about halfway between the mean scores of
    both labels. So `predict` treats both labels as equally frequent: it finds most rows of the rare class,
    at the price of many false alarms. `CalibratedClassifier` learns the threshold for few mistakes, and
    probabilities. With more than two classes each class is ranked against all others.

    In step 2, a full budget is divided into halves. While the other label has at least two supports more, a
    random one of them is replaced. Then the row replaces a random support of its own label with the
    probability (supports of the label) / (rows of the label that had a loss). This is reservoir sampling:
    the supports are a uniform sample of these rows. Rows whose squared distance from the span of the supports
    is at most 1e-4 k(x, x) (1e-3 for float32 rows) are not stored; their step is projected. The first row of
    the stream is stored with the coefficient 0. A loss of a pair of at most 1e-9 (1e-4) counts as 0. The
    longer the stream, the less often supports change, but their coefficients follow it.

    Only rows with a loss are learned. If the rows are nearly orthogonal in the space of the kernel, as random
    rows of hundreds of features are, a few large steps leave no loss at any pair, because the supports of the
    pairs have large scores of their own. Then nothing more is learned: choose a smaller `eta`, such as 0.1.

    Zhao et al. learn linear functions with the same loss and a reservoir for each label. Hu et al. learn
    with kernels, from the pairs with the nearest supports only, and add the coefficient of a replaced
    support to its nearest neighbour. Projecting it, step 3, and a budget of which the rare class uses
    as much as it can are ours.

    References
    ----------
    Zhao, Hoi, Jin, Yang: Online AUC Maximization (2011).

    Hu, Yang, King, Lyu, So: Kernelized Online Imbalanced Learning with Fixed Budgets (2015).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import roc_auc_score
    >>> from budgetron import AUCMaximizer
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AUCMaximizer(budget=50, gamma=0.001, random_state=0)
    >>> trace = model.progressive_fit(X, y == 8)
    >>> print(f"{roc_auc_score(y == 8, trace.margins):.2f}")
    0.88
    """

    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "budget": [Interval(Integral, 1, MOST_SUPPORTS, closed="both")],
        "eta": [Interval(Real, 0.0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        budget: int = 100,
        eta: float = 2.0,
        *,
        random_state: int | np.random.RandomState | None = None,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.budget = budget
        self.eta = eta
        self.random_state = random_state

    def _rule(self, generator: np.random.Generator) -> PairwiseRule:
        return PairwiseRule(self.budget, self.eta, generator)
