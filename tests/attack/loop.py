"""The plain loop: a model that learns row by row what the attacked model learns in any other way."""

import numpy as np
from scipy.sparse import issparse
from states import close
from ties import is_tie, probe_rows

from budgetron import FOGD, BudgetClassifier
from budgetron._base.access import hypotheses_of
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.linear_classifier import LinearClassifier
from budgetron.experts import ExpertClassifier
from budgetron.linear import PassiveAggressive as LinearPassiveAggressive

# Rounds are left out if a margin is closer than GAP to a value where a learner decides otherwise, because
# rounding might decide them. Margins are equal if they differ by at most TOLERANCE times the largest margin.
GAP = {"float64": 1e-7, "float32": 5e-3}
TOLERANCE = {"float64": 1e-9, "float32": 1e-3}


class Loop:
    """A model that learns single rows of C-contiguous arrays.

    Parameters
    ----------
    variant : Variant
    classes : ndarray
        The classes of the first call.
    dtype : {"float64", "float32"}
    method : {"play", "partial_fit"}
        How rows are learned.
    """

    def __init__(self, variant, classes, dtype, method):
        self.model = variant.make()
        self.exact = variant.exact
        self.classes, self.dtype, self.method = classes, dtype, method
        self.gap, self.tolerance = GAP[dtype], TOLERANCE[dtype]
        self.rounds = 0

    def row(self, x):
        return np.ascontiguousarray(x[None], self.dtype)

    def is_tie(self, x):
        """Return whether rounding might decide the round."""
        return not self.exact and self.rounds > 0 and is_tie(self.model, self.row(x), self.gap)

    def comparable(self, X):
        """Return the rows whose predictions rounding cannot change."""
        if not isinstance(getattr(self.model, "learner", self.model), BudgetClassifier | ExpertClassifier):
            return X  # f is continuous
        return X[[not self.is_tie(x) for x in X]]

    def learn(self, x, label, weight=None):
        """Learn one row; return its margins, or None if they are not known, and the number of supports."""
        row, y = self.row(x), np.array([label], object if self.classes.dtype == object else None)
        model, margins = self.model, None
        options = {} if weight is None else {"sample_weight": [weight]}
        if not self.rounds:
            options["classes"] = self.classes
        if label not in (self.classes if not self.rounds else model.classes_).tolist():
            options["admit"] = True
        if isinstance(model, ExpertClassifier):
            trace = model.progressive_fit(row, y, **options)
            margins = trace.margins[0]
        elif self.method == "play" and weight is None and "admit" not in options:
            margins = model.play(row[0], label, **options)
        else:
            model.partial_fit(row, y, **options)
        self.rounds += 1
        supports = None if isinstance(model, ExpertClassifier) else supports_of(model)
        return margins, supports


def supports_of(model):
    return sum(hypothesis.n_supports for hypothesis in hypotheses_of(model))


def assert_same(model, loop):
    """Compare a model with the one that learned by the plain loop."""
    expected, tolerance = loop.model, loop.tolerance
    assert (model.rounds_, model.mistakes_) == (expected.rounds_, expected.mistakes_)
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert model.n_features_in_ == expected.n_features_in_
    same_parts(model, expected, tolerance)
    probes = loop.comparable(probe_rows(np.zeros((1, model.n_features_in_)))).astype(loop.dtype)
    if not len(probes):
        return
    left, right = model.decision_function(probes), expected.decision_function(probes)
    assert close(left, right, tolerance), f"margins {left} instead of {right}"


def same_parts(model, expected, tolerance):
    """Compare supports and weights, which depend on the kind of the model."""
    if isinstance(model, KernelClassifier):
        assert model.support_.tolist() == expected.support_.tolist()
        left, right = dense(model.support_vectors_), dense(expected.support_vectors_)
        np.testing.assert_array_equal(left, right)
        assert close(model.dual_coef_, expected.dual_coef_, tolerance), "coefficients differ"
        within_budget(model)
    elif isinstance(model, LinearClassifier):
        if hasattr(model, "coef_"):
            assert close(model.coef_, expected.coef_, tolerance), "weights differ"
        if not isinstance(model, LinearPassiveAggressive):  # its step may be as small as a rounding error
            assert model.updates_ == expected.updates_
    elif isinstance(model, LearnerWrapper):
        assert (model.learner_.rounds_, model.learner_.mistakes_) == (model.rounds_, model.mistakes_)
        same_parts(model.learner_, expected.learner_, tolerance)
        for name in ("sigmoids_", "total_loss_", "largest_loss_", "losses_", "births_", "scores_", "counts_"):
            if hasattr(expected, name):
                assert close(getattr(model, name), getattr(expected, name), 1e3 * tolerance), name
    elif isinstance(model, ExpertClassifier):
        for name in ("weights_", "learner_mistakes_"):
            assert close(getattr(model, name), getattr(expected, name), tolerance), name
        for left, right in zip(model.learners_, expected.learners_, strict=True):
            same_parts(left, right, tolerance)
    elif isinstance(model, BudgetClassifier):
        assert model.nbytes_ <= memory_of(model)
        names = [(expert["name"], expert["active"]) for expert in model.experts_]
        assert names == [(expert["name"], expert["active"]) for expert in expected.experts_]
    else:
        name = "weights_" if isinstance(model, FOGD) else "coef_"
        assert close(getattr(model, name), getattr(expected, name), tolerance), "weights differ"


def within_budget(model):
    budget = getattr(model, "budget", None)
    if budget is not None:
        assert all(hypothesis.n_supports <= budget for hypothesis in hypotheses_of(model))


def memory_of(model):
    return int(model.memory.removesuffix("kB")) << 10


def dense(rows):
    return rows.toarray() if issparse(rows) else rows
