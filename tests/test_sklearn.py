"""scikit-learn's own checks, for every learner."""

import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import budgetron
from budgetron import CalibratedClassifier, PassiveAggressive, linear
from budgetron.batch import AveragedClassifier, PenalizedRiskClassifier

# Checks that a learner is known not to pass, with the reason.
ONE_BY_ONE = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "rows are learned one after the other: one of weight 2 is not the same row twice",
)
NO_INTERCEPT = {"check_class_weight_classifiers": "a hyperplane through the origin has rows on both sides"}
EXPECTED_FAILURES = {
    PassiveAggressive: ONE_BY_ONE,
    linear.PassiveAggressive: ONE_BY_ONE | NO_INTERCEPT,
    linear.OnlineSVM: ONE_BY_ONE | NO_INTERCEPT,
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
    ]


@parametrize_with_checks(
    models(), expected_failed_checks=lambda model: EXPECTED_FAILURES.get(type(model), {})
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("learner", budgetron.learners())
def test_in_a_pipeline_and_a_grid(learner):
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
