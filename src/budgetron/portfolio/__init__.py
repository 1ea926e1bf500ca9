"""`BudgetClassifier`: experts of several kinds in one memory, combined into one classifier.

`_classifier`  the estimator
`_portfolio`   one hypothesis made of experts, for all classes
`_schedule`    when experts start, end and grow
`_pool`        the experts' shared memory, and the rows that it keeps
`_experts`     the experts
`_changes`     a detector of changes of the stream
`_views`       rows, raw and standardised
`_frozen`      the numbers that define the predictions at one moment, for export
`_state`       portfolios from states that come from outside, such as files, after checking them
"""

from budgetron.portfolio._classifier import BudgetClassifier, ExpertSummary
from budgetron.portfolio._experts import Plan

__all__ = ["BudgetClassifier", "ExpertSummary", "Plan"]
