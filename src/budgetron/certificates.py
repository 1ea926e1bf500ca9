"""Certificates: a learner's theorem, evaluated on the stream that it learned.

A mistake bound holds for every competitor. `certify` takes one, or finds the best. It computes the norm and
the losses of the competitor on the stream, checks the assumptions of the theorem, and compares the bound with
the number of mistakes.
"""

from budgetron._certify.certificate import Certificate
from budgetron._certify.certify import certify

__all__ = ["Certificate", "certify"]
