"""Certificates: a learner's theorem, evaluated on the stream that it learned.

Internal; the public module is `budgetron.certificates`.
"""
