"""The estimator checks of scikit-learn for every learner, and use with its tools."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import budgetron
from budgetron import CalibratedClassifier, ConformalClassifier, PassiveAggressive, linear
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

# Checks that a learner is known not to pass, with the reason.
ONE_BY_ONE = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "rows are learned one after the other: a row of weight 2 differs from the same row twice",
)
SHORT_STEPS = {
    "check_class_weight_classifiers": "one pass of short steps over 50 long rows learns no intercept"
}
EXPECTED_FAILURES = {
    PassiveAggressive: ONE_BY_ONE,
    budgetron.SecondOrderProjectron: ONE_BY_ONE,
    budgetron.BudgetClassifier: ONE_BY_ONE,
    linear.AROW: ONE_BY_ONE,
    linear.PassiveAggressive: ONE_BY_ONE | SHORT_STEPS,
    linear.OnlineSVM: ONE_BY_ONE | SHORT_STEPS,
}


def models():
    return [
        *(learner() for learner in budgetron.learners() + linear.learners()),
        linear.Perceptron(normalize=True),
        linear.VotedPerceptron("majority"),
        linear.Winnow(balanced=True),
        linear.AROW(covariance="diagonal"),
        AveragedClassifier(budgetron.Forgetron()),
        AveragedClassifier(linear.AROW()),
        PenalizedRiskClassifier(budgetron.KernelPerceptron()),
        PenalizedRiskClassifier(linear.PassiveAggressive()),
        CalibratedClassifier(budgetron.Forgetron()),
        CalibratedClassifier(linear.AROW()),
        ConformalClassifier(budgetron.Forgetron()),
        ConformalClassifier(linear.AROW()),
        budgetron.BudgetClassifier("1MB", random_state=0),
    ]


@parametrize_with_checks(
    models(), expected_failed_checks=lambda model: EXPECTED_FAILURES.get(type(model), {})
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("learner", budgetron.learners())
def test_pipeline_and_grid_search(learner):
    X, y = load_digits(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), learner())
    grid = GridSearchCV(pipeline, {f"{learner.__name__.lower()}__gamma": [0.01, 0.1]}, cv=2)
    grid.fit(X[:300], y[:300] % 2)
    assert grid.best_score_ > 0.7
    assert clone(learner(gamma=0.3)).gamma == 0.3


@pytest.mark.parametrize("learner", linear.learners())
def test_linear_learners_in_a_pipeline(learner):
    X, y = load_digits(return_X_y=True)
    model = clone(learner(balanced=True) if learner is linear.Winnow else learner())
    pipeline = make_pipeline(StandardScaler(), model).fit(X[:1000], y[:1000] % 2)
    assert pipeline.score(X[1000:], y[1000:] % 2) > 0.7


def test_equals_one_vs_rest_of_scikit_learn():
    # Budgetron shares kernel values between classes; OneVsRestClassifier learns the same hypotheses.
    X, y = load_digits(return_X_y=True)
    ours = budgetron.Forgetron(30, gamma=0.0005).fit(X[:600], y[:600])
    theirs = OneVsRestClassifier(budgetron.Forgetron(30, gamma=0.0005)).fit(X[:600], y[:600])
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-9)


def test_metadata_is_routed():
    X, y = load_digits(return_X_y=True)
    w = np.where(y % 2, 5.0, 0.1)
    with config_context(enable_metadata_routing=True):
        weighted = linear.PassiveAggressive(C=0.01).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, weighted).fit(X, y % 2, sample_weight=w)
        plain = make_pipeline(StandardScaler(), linear.PassiveAggressive(C=0.01)).fit(X, y % 2)
        assert pipeline.predict(X).mean() > plain.predict(X).mean() + 0.05
        admitting = budgetron.Forgetron(30).set_partial_fit_request(admit=True)
        assert admitting.get_metadata_routing().partial_fit.requests["admit"] is True


def test_feature_names():
    X, y = load_digits(return_X_y=True, as_frame=True)
    model = budgetron.Forgetron(30, gamma=0.0005).fit(X, y % 2)
    assert model.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.rename(columns={"pixel_0_0": "corner"}))
