"""Progressive evaluation: predict each row, then learn it, and keep the results.

Internal; the public module is `budgetron.evaluate`.
"""
