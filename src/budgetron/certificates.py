"""Certificates: what a learner's own theorem says of the run that it made.

A mistake bound holds for every competitor. `certify` takes one (or finds the best), computes what
the theorem asks of it on the very stream that was learned, checks what is assumed, and sets the
bound beside the mistakes that were made.
"""

from budgetron._certify.certificate import Certificate, certify

__all__ = ["Certificate", "certify"]
