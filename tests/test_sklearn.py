"""scikit-learn's own checks, for every learner."""

import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import budgetron

# Checks that a learner is known not to pass, with the reason. None so far.
EXPECTED_FAILURES: dict[str, dict[str, str]] = {}


def models():
    return [learner() for learner in budgetron.learners()]


@parametrize_with_checks(
    models(), expected_failed_checks=lambda model: EXPECTED_FAILURES.get(type(model).__name__, {})
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
