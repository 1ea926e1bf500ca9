"""`BudgetClassifier` and `BudgetRegressor`: experts of several kinds in one memory, combined into one model.

`_classifier`  the estimator
`_portfolio`   one hypothesis made of experts, for all classes
`_schedule`    when experts start, end and grow
`_pool`        the experts' shared memory, and the rows that it keeps
`_experts`     the experts
`_changes`     a detector of changes of the stream
`_views`       rows, raw and standardised
`_frozen`      the numbers that define the predictions at one moment, for export
`_state`       portfolios from states that come from outside, such as files, after checking them

`_regressor`, `_regression`, `_regression_experts` and `_regression_state` are the estimator, the portfolio,
the experts and the checks of `BudgetRegressor`.
"""

from budgetron.portfolio._classifier import BudgetClassifier, ExpertSummary
from budgetron.portfolio._experts import Plan
from budgetron.portfolio._regressor import BudgetRegressor, RegressionExpert

__all__ = ["BudgetClassifier", "BudgetRegressor", "ExpertSummary", "Plan", "RegressionExpert"]
