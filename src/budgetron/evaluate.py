"""Progressive evaluation: predict each row, then learn it, and record the results.

`progressive` runs one learner over a stream, `compare` several in one pass, and `tune` one learner with
several parameters. They take any
`budgetron.streams.Stream`, or a pair of arrays. The size of the results does not depend on the length of the
stream. Learners are those of Budgetron, or any with `partial_fit` and `predict`: classifiers, whose results
are about classes and mistakes, or regressors, whose results are about errors and intervals.
"""

from budgetron._evaluation.comparison import Comparison
from budgetron._evaluation.regression_comparison import RegressionComparison
from budgetron._evaluation.regression_result import RegressionResult
from budgetron._evaluation.result import Result
from budgetron._evaluation.runs import compare, progressive, tune

__all__ = [
    "Comparison",
    "RegressionComparison",
    "RegressionResult",
    "Result",
    "compare",
    "progressive",
    "tune",
]
