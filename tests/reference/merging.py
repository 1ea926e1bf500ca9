"""Merge Gaussian learners: add what each copy has added to the precision and to precision times mean."""

import copy

import numpy as np


def natural(run):
    """Return the precision, and the precision times the mean of each output."""
    precision = np.linalg.inv(run.sigma)
    return precision, run.w @ precision


def merged(base, copies):
    """Return a learner with the Gaussian that `base` and all that the copies have learned since then give.

    A learner has the covariance `sigma`, the means `w`, and a number of mistakes.
    """
    result = copy.deepcopy(base)
    precision, shifts = natural(base)
    for run in copies:
        its_precision, its_shifts = natural(run)
        precision = precision + (its_precision - natural(base)[0])
        shifts = shifts + (its_shifts - natural(base)[1])
        result.mistakes += run.mistakes - base.mistakes
    result.sigma = np.linalg.inv(precision)
    result.w = shifts @ result.sigma
    return result
