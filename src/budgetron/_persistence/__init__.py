"""Model files: the archive, and models as trees of plain values.

Internal; the public module is `budgetron.files`.
"""
