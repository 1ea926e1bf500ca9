"""Expert advice from 004 section 8.2 and exercises 8.7-8.8, and fixed share, one weight at a time."""

from itertools import pairwise, product
from math import exp, floor, log, log2, sqrt


def majority(advice, outcomes, beta):
    """Figures 8.2 (beta = 0) and 8.3. Return predictions, and the weights after the last round."""
    w = [1.0] * len(advice[0])
    predictions = []
    for y_t, y in zip(advice, outcomes, strict=True):
        ones = sum(w_i for w_i, y_i in zip(w, y_t, strict=True) if y_i == 1)
        zeros = sum(w_i for w_i, y_i in zip(w, y_t, strict=True) if y_i == 0)
        predictions.append(1.0 if ones >= zeros else 0.0)
        if predictions[-1] != y:
            w = [beta * w_i if y_i != y else w_i for w_i, y_i in zip(w, y_t, strict=True)]
    return predictions, w


def share(w):
    """Return weights that sum to 1."""
    return [w_i / sum(w) for w_i in w]


def randomized_majority(losses, beta):
    """Figure 8.4. Return expected losses and final weights."""
    w, own = [1.0] * len(losses[0]), []
    for l_t in losses:
        own.append(sum(p * loss for p, loss in zip(share(w), l_t, strict=True)))
        w = [beta * w_i if loss == 1 else w_i for w_i, loss in zip(w, l_t, strict=True)]
    return own, w


def prod(losses, beta):
    """Exercise 8.7. Return expected losses and final weights."""
    w, own = [1.0] * len(losses[0]), []
    for l_t in losses:
        own.append(sum(p * loss for p, loss in zip(share(w), l_t, strict=True)))
        w = [(1 - (1 - beta) * loss) * w_i for w_i, loss in zip(w, l_t, strict=True)]
    return own, w


def doubling(play, losses):
    """Section 8.2.4: restart in periods of 1, 2, 4, ... rounds, each with the best beta for its length."""
    N, own, t = len(losses[0]), [], 1
    while t <= len(losses):
        k = floor(log2(t))
        beta = max(1 / 2, 1 - sqrt(log(N) / 2**k))
        period, w = play(losses[t - 1 : t - 1 + 2**k], beta)
        own += period
        t += 2**k
    return own, w


def exponential(advice, outcomes, loss, eta):
    """Figure 8.5, with eta a number, "doubling" or "anytime". Return predictions, losses, total losses."""
    N = len(advice[0])
    totals, predictions, own, w = [0.0] * N, [], [], [1.0] * N
    for t, (y_t, y) in enumerate(zip(advice, outcomes, strict=True), start=1):
        rate = eta
        if eta == "doubling":
            k = floor(log2(t))
            rate = sqrt(8 * log(N) / 2**k)
            if t == 2**k:  # a new period resets the weights
                totals = [0.0] * N
        elif eta == "anytime":
            rate = sqrt(8 * log(N) / t)
        w = [exp(-rate * total) for total in totals]
        predictions.append(sum(p * y_i for p, y_i in zip(share(w), y_t, strict=True)))
        own.append(loss(predictions[-1], y))
        totals = [total + loss(y_i, y) for total, y_i in zip(totals, y_t, strict=True)]
    return predictions, own, totals


def fixed_share(advice, outcomes, loss, eta, alpha):
    """Herbster and Warmuth, shares for all. Return predictions, losses, and the weights after each round."""
    N = len(advice[0])
    w, predictions, own, weights = [1 / N] * N, [], [], []
    for y_t, y in zip(advice, outcomes, strict=True):
        predictions.append(sum(w_i * y_i for w_i, y_i in zip(w, y_t, strict=True)))
        own.append(loss(predictions[-1], y))
        w = share([w_i * exp(-eta * loss(y_i, y)) for w_i, y_i in zip(w, y_t, strict=True)])
        w = [(1 - alpha) * w_i + alpha / N for w_i in w]
        weights.append(w)
    return predictions, own, weights


def sequences(losses, alpha):
    """Return (switches, loss, prior probability) of every sequence of experts, by enumeration."""
    N, found = len(losses[0]), []
    for sequence in product(range(N), repeat=len(losses)):
        stays = [i == j for i, j in pairwise(sequence)]
        probability = 1 / N
        for stay in stays:
            probability *= 1 - alpha + alpha / N if stay else alpha / N
        loss = sum(l_t[i] for l_t, i in zip(losses, sequence, strict=True))
        found.append((stays.count(False), loss, probability))
    return found


def polynomial(advice, outcomes, loss, alpha):
    """Exercise 8.8. Return predictions, losses, final regrets."""
    N = len(advice[0])
    R, predictions, own = [0.0] * N, [], []
    for y_t, y in zip(advice, outcomes, strict=True):
        w = [max(r, 0.0) ** (alpha - 1) for r in R]
        if sum(w) == 0:
            w = [1.0] * N
        predictions.append(sum(p * y_i for p, y_i in zip(share(w), y_t, strict=True)))
        own.append(loss(predictions[-1], y))
        R = [r + own[-1] - loss(y_i, y) for r, y_i in zip(R, y_t, strict=True)]
    return predictions, own, R
