"""Many small models in one memory: `Fleet` has one learner per key, for thousands to millions of keys.

It uses the learners of `kernelized` and `linear` as they are; the states of all keys are kept by the compiled
core.
"""

from budgetron.fleet._certificate import KeyCertificate
from budgetron.fleet._fleet import Fleet

__all__ = ["Fleet", "KeyCertificate"]
