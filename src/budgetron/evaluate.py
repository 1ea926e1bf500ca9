"""Progressive evaluation: predict, then learn, row by row, and keep account.

`progressive` runs one learner over a stream, `compare` several in one pass. Both take any
`budgetron.streams.Stream`, or a pair of arrays, and keep an account of fixed size however
long the stream is. Learners are Budgetron's, or any with `partial_fit` and `predict`.
"""

from budgetron._evaluation.comparison import Comparison, Result, compare, progressive

__all__ = ["Comparison", "Result", "compare", "progressive"]
