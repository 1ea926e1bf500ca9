"""The predictions of a portfolio that no longer learns, computed literally in float64, row by row."""

from dataclasses import dataclass
from math import sqrt, tanh

import numpy as np

from reference.portfolio import margins_from_votes

# The exponent of 2 below which kernel values are 0.
LOWEST = {"float32": -126.5, "float64": -1022.5}


@dataclass
class Voter:
    """The scores of a combiner or expert for one row, one per output, and their sizes.

    The size is the sum of the absolute values of all terms, with the exponents of the kernel values: rounding
    errors are proportional to it.
    """

    scores: np.ndarray
    sizes: np.ndarray

    @property
    def choice(self):
        """The class that the scores stand for."""
        return int(np.argmax(self.scores)) if len(self.scores) > 1 else int(self.scores[0] > 0.0)

    def is_close_to_a_tie(self, relative):
        """Return whether errors of this size, relative to the terms, might change the choice.

        Scores that are exactly 0 have no errors.
        """
        errors = relative * self.sizes
        if len(self.scores) == 1:
            return 0.0 < abs(self.scores[0]) <= errors[0] or (self.scores[0] == 0.0 < self.sizes[0])
        first = self.choice
        lead = self.scores[first] - self.scores
        return any(0.0 < errors[c] + errors[first] >= lead[c] for c in range(len(lead)) if c != first)


def standardised(x, scaler):
    """Return a row standardised by the rows so far and itself."""
    n, z = scaler.count, np.zeros(len(x))
    for i, value in enumerate(x):
        mean = (n * scaler.mean[i] + value) / (n + 1)
        spread = scaler.spread[i] + (value - scaler.mean[i]) ** 2 * n / (n + 1)
        if spread / (n + 1) > 1e-24 * mean**2:
            z[i] = (value - mean) / sqrt(spread / (n + 1))
    return z


def expert_voter(expert, x, lowest, origin):
    """Return the scores of an expert for the row that it sees. Sizes are those of rows minus `origin`."""
    exponents = -expert.gamma * ((x - expert.supports.astype(np.float64)) ** 2).sum(axis=1)
    values = np.where(exponents >= lowest * np.log(2.0), np.exp(exponents), 0.0)
    scores = (expert.coef * values).sum(axis=1)
    sizes = (np.abs(expert.coef) * values * (1.0 - exponents)).sum(axis=1)
    if expert.slopes is not None:
        constants = expert.slopes @ origin + (0.0 if expert.constants is None else expert.constants)
        scores += expert.slopes @ (x - origin) + constants
        sizes += np.abs(expert.slopes) @ np.abs(x - origin) + np.abs(constants)
    return Voter(scores, sizes)


def voters(portfolio, x):
    """Return the combiners and the experts for a raw row."""
    rows = {False: x, True: x if portfolio.scaler is None else standardised(x, portfolio.scaler)}
    experts = []
    for expert in portfolio.experts:
        row = rows[expert.standardised]
        row = row * expert.scales if len(expert.scales) else row
        origin = np.zeros(len(x))
        if portfolio.scaler is not None and not expert.standardised:
            origin = portfolio.scaler.mean
        experts.append(expert_voter(expert, row, LOWEST[portfolio.dtype.name], origin))
    combiners = []
    for weights, constants in zip(portfolio.weights, portfolio.constants, strict=True):
        scores, sizes = constants.copy(), np.abs(constants)
        for c, expert_weights in enumerate(weights):
            for expert, weight in zip(experts, expert_weights, strict=True):
                value = tanh(expert.scores[c])
                scores[c] += weight * value
                sizes[c] += abs(weight) * (abs(value) + (1.0 - value**2) * expert.sizes[c])
        combiners.append(Voter(scores, sizes))
    return combiners, experts


def margins(portfolio, combiners, experts):
    """Return the margins of one row."""
    votes = np.zeros(max(portfolio.outputs, 2))
    for share, voter in zip(portfolio.shares, [*combiners, *experts], strict=True):
        votes[voter.choice] += share
    winner = combiners[0].choice
    for c, vote in enumerate(votes):
        if vote > votes[winner] + 1e-12:
            winner = c
    combined = [
        tanh(sum(b * voter.scores[c] for b, voter in zip(portfolio.blend, combiners, strict=True)))
        for c in range(portfolio.outputs)
    ]
    return margins_from_votes(votes, winner, combined)
