"""The linear learners: one weight per feature, for dense and sparse rows.

=====================  ==============================================================
`AROW`                 second order: the fewest mistakes
`PassiveAggressive`    the smallest step that classifies the current row with a margin
`OnlineSVM`            the SVM by gradient steps; old examples lose weight
`Winnow`               multiplies weights: for rows with few relevant features
`Perceptron`           the simplest; also with normalized rows
`VotedPerceptron`      predicts with all hypotheses, weighted by the rounds each lasted
`MarginPerceptron`     updates until rows have a given margin
`AROWRegressor`        regression: recursive least squares, with forgetting
`PARegressor`          regression: the smallest step that repairs the prediction
=====================  ==============================================================

All have the interface of the kernel learners, and `coef_` and `intercept_`. The intercept is the
weight of a constant feature of 1 (`fit_intercept`, the default for all but `Winnow`), so that their
theorems hold for rows (1, x).
"""

# The import lines are the list of learners: the build compiles each module that they name, and the
# conformance tests run over all of them.

from budgetron._base.linear_classifier import LinearClassifier as _LinearClassifier
from budgetron._base.linear_regressor import LinearRegressor as _LinearRegressor
from budgetron.linear._arow import AROW as AROW
from budgetron.linear._arow_regressor import AROWRegressor as AROWRegressor
from budgetron.linear._margin import MarginPerceptron as MarginPerceptron
from budgetron.linear._online_svm import OnlineSVM as OnlineSVM
from budgetron.linear._pa_regressor import PARegressor as PARegressor
from budgetron.linear._passive_aggressive import PassiveAggressive as PassiveAggressive
from budgetron.linear._perceptron import Perceptron as Perceptron
from budgetron.linear._voted import VotedPerceptron as VotedPerceptron
from budgetron.linear._winnow import Winnow as Winnow


def learners() -> list[type[_LinearClassifier]]:
    """Return all linear learners, sorted by name.

    Examples
    --------
    >>> from budgetron import linear
    >>> linear.AROW in linear.learners()
    True
    """
    return [
        value
        for name, value in sorted(globals().items())
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, _LinearClassifier)
    ]


def regressors() -> list[type[_LinearRegressor]]:
    """Return all linear regressors, sorted by name.

    Examples
    --------
    >>> from budgetron import linear
    >>> [cls.__name__ for cls in linear.regressors()]
    ['AROWRegressor', 'PARegressor']
    """
    return [
        value
        for name, value in sorted(globals().items())
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, _LinearRegressor)
    ]


__all__ = ["learners", "regressors", *(cls.__name__ for cls in [*learners(), *regressors()])]
