"""Regressors, slow and literal: ridge regression by its normal equations, Gaussians over whole spaces, PA."""

from math import sqrt

import numpy as np

from reference.second_order import JointSecondOrder


def ridge_predictions(X, y, penalty):
    """Return the prediction of each row by ridge regression on all rows before it, solved anew each time."""
    d = X.shape[1]
    predictions = []
    for t in range(len(y)):
        A = X[:t].T @ X[:t] + penalty * np.eye(d)
        predictions.append(float(X[t] @ np.linalg.solve(A, X[:t].T @ y[:t])))
    return np.array(predictions)


def vaw_predictions(X, y, penalty):
    """Return b_{t-1}' A_t^-1 x_t of each row: the matrix contains the row itself, the vector does not."""
    d = X.shape[1]
    predictions = []
    for t in range(len(y)):
        A = X[: t + 1].T @ X[: t + 1] + penalty * np.eye(d)
        predictions.append(float((X[:t].T @ y[:t]) @ np.linalg.solve(A, X[t])))
    return np.array(predictions)


class LinearGaussian:
    """Bayes' rule for a Gaussian over weights, with forgetting and weights of rows; full or diagonal."""

    def __init__(self, d, r, prior, forget=1.0, diagonal=False):
        self.w, self.sigma = np.zeros(d), prior * np.eye(d)
        self.r, self.prior, self.forget, self.diagonal = r, prior, forget, diagonal
        self.total = self.weight = 0.0

    def play(self, x, y, importance=1.0):
        """Return the prediction and its variance; then learn y."""
        prediction, v = float(self.w @ x), float(x @ self.sigma @ x)
        if importance > 0.0:
            r = self.r / importance
            self.w = self.w + (y - prediction) / (v + r) * self.sigma @ x
            precision = np.outer(x, x) / r
            self.sigma = np.linalg.inv(
                np.linalg.inv(self.sigma) + (np.diag(np.diag(precision)) if self.diagonal else precision)
            )
            self.total = self.forget * self.total + (y - prediction) ** 2 / (v + r)
            self.weight = self.forget * self.weight + 1.0
            self.w = sqrt(self.forget) * self.w
            self.sigma = self.forget * self.sigma + (1.0 - self.forget) * self.prior * np.eye(len(x))
        return prediction, v

    @property
    def noise_variance(self):
        return self.r * self.total / self.weight


class SecondOrderRegression(JointSecondOrder):
    """A Gaussian over the span of the supports and linear functions, with the squared loss and targets."""

    def __init__(self, K, targets, **arguments):
        super().__init__(K, np.zeros(len(K), int), 2, loss="squared", **arguments)
        self.targets = targets
        self.total = self.weight = 0.0

    def play(self, t):
        """Play round t; return the prediction and the variance of f(x), also outside of the span."""
        s = self.w @ self.phi(t)
        phi, delta2 = self.phi(t), self.image(t)[1]
        v = float(phi @ self.sigma @ phi) + self.prior * delta2
        if self.weights[t] > 0.0:
            residual = self.targets[t] - s[0]
            self.total = self.forget * self.total + residual**2 / (v + self.r / self.weights[t])
            self.weight = self.forget * self.weight + 1.0
            self.update(t, self.targets[t : t + 1], s, True)
        return float(s[0]), v

    @property
    def noise_variance(self):
        return self.r * self.total / self.weight


class PassiveAggressiveRegression:
    """Crammer et al. (2006), section 5, over the rows of all rounds. `K` has their inner products."""

    def __init__(self, K, y, C=1.0, variant="PA-I", epsilon=0.1, budget=None):
        self.K, self.y, self.C, self.variant, self.epsilon, self.budget = K, y, C, variant, epsilon, budget
        self.alpha = {}

    def play(self, t, importance=1.0):
        prediction = sum(c * self.K[s, t] for s, c in self.alpha.items())
        loss = max(0.0, abs(self.y[t] - prediction) - self.epsilon)
        if loss > 0.0 and importance > 0.0:
            square, C = self.K[t, t], self.C * importance
            if self.variant == "PA-II":
                square += 1.0 / (2.0 * C)
            tau = loss / square if square > 0.0 else 0.0
            if self.variant == "PA-I":
                tau = min(tau, C)
            if tau > 0.0:
                self.alpha[t] = np.sign(self.y[t] - prediction) * tau
                if self.budget is not None and len(self.alpha) > self.budget:
                    del self.alpha[next(iter(self.alpha))]
        return prediction


class Norma:
    """Kivinen, Smola, Williamson (2004): gradient steps on the regularized loss, and truncation."""

    def __init__(self, K, y, budget, eta, regularization, loss, epsilon, rate):
        self.K, self.y, self.budget, self.eta, self.regularization = K, y, budget, eta, regularization
        self.loss, self.epsilon, self.rate = loss, epsilon, rate
        self.alpha = {}

    def derivative(self, prediction, y):
        error = prediction - y
        if self.loss == "squared":
            return error
        if abs(error) > self.epsilon:
            return np.sign(error)
        return 0.0 if self.loss == "epsilon-insensitive" else error / self.epsilon

    def play(self, t, importance=1.0):
        prediction = sum(c * self.K[s, t] for s, c in self.alpha.items())
        if importance > 0.0:
            eta = self.eta / sqrt(t + 1) if self.rate == "decreasing" else self.eta
            self.alpha = {s: (1.0 - eta * self.regularization) * c for s, c in self.alpha.items()}
            step = -eta * importance * self.derivative(prediction, self.y[t])
            if step != 0.0:
                self.alpha[t] = step
                if len(self.alpha) > self.budget:
                    del self.alpha[next(iter(self.alpha))]
        return prediction


# ---------------------------------------------------------------------- combinations of predictions


class Leader:
    """Predicts by the active expert with the smallest recent squared error; the first of equal ones."""

    def __init__(self, n, keep):
        self.recent, self.keep = [0.0] * n, keep

    def predict(self, predictions, active):
        places = [i for i in range(len(predictions)) if active[i]]
        return predictions[min(places, key=lambda i: (self.recent[i], i))]

    def learn(self, predictions, y):
        self.recent = [self.keep * e + (p - y) ** 2 for e, p in zip(self.recent, predictions, strict=True)]


class FixedShareSquares:
    """Fixed share on the squared loss of clipped predictions, with the rate 1 / (2 R^2)."""

    def __init__(self, prior, a):
        self.prior, self.weights, self.a = np.array(prior), np.array(prior), a
        self.targets, self.R, self.growth = [], 0.0, 0.0

    def clip(self, predictions):
        if not self.targets:
            return np.zeros(len(predictions))
        return np.array([min(max(p, min(self.targets)), max(self.targets)) for p in predictions])

    def play(self, predictions, y, importance=1.0):
        clipped = self.clip(predictions)
        combined = float(self.weights @ clipped)
        errors = np.abs(clipped - y)
        outside = not self.targets or not min(self.targets) <= y <= max(self.targets)
        if outside or errors.max() > self.R:
            self.growth += (combined - y) ** 2
            self.R = max(self.R, float(errors.max()))
        elif self.R > 0.0 and importance > 0.0:
            weights = self.weights * np.exp(-importance * errors**2 / (2.0 * self.R**2))
            self.weights = (1.0 - self.a) * weights / weights.sum() + self.a * self.prior
        self.targets.append(y)
        return combined, errors**2


class AdaptiveInterval:
    """Adaptive conformal inference (Gibbs, Candes 2021) on the last W normalized errors."""

    def __init__(self, level, rate, keep, W):
        self.level, self.rate, self.keep, self.W = level, rate, keep, W
        self.m, self.scores, self.errors, self.targets = 1.0 - level, [], [], []

    def spread(self):
        if not self.errors:
            return 0.0
        powers = self.keep ** np.arange(len(self.errors))[::-1]
        return sqrt(float(powers @ np.square(self.errors)) / float(powers.sum()))

    def interval(self, p):
        recent = sorted(self.scores[-self.W :])
        if len(recent) < 10:
            return min([*self.targets, p]), max([*self.targets, p])
        place = int(np.ceil((1.0 - self.m) * (len(recent) + 1))) - 1
        q = 2.0 * recent[-1] if place >= len(recent) else recent[place] if place >= 0 else 0.0
        return p - q * self.spread(), p + q * self.spread()

    def play(self, p, y):
        low, high = self.interval(p)
        error = abs(y - p)
        if len(self.scores[-self.W :]) >= 10:
            self.m += self.rate * (1.0 - self.level - (0.0 if low <= y <= high else 1.0))
        s = self.spread()
        self.scores.append(min(error / s if s > 0.0 else (0.0 if error == 0.0 else 1e3), 1e6))
        self.errors.append(error)
        self.targets.append(y)
        return low, high
