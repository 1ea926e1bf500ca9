"""Certificates: evaluate a learner's theorem on the stream that it learned.

Internal; the public module is `budgetron.certificates`.
"""
