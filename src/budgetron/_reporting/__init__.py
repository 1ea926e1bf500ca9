"""The HTML report about a comparison.

Internal; the public module is `budgetron.report`.
"""
