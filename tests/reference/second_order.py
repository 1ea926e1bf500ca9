"""The second-order Projectron: AROW (Crammer, Kulesza, Dredze 2009) on images in the span of the supports.

No coordinates here: Sigma = (I + sum phi phi' / r)^-1 is told by inner products of the images phi that were
updated on, and each image by its coefficients over the supports of its time, as 002 eq. 8 gives them.
"""

from math import sqrt

import numpy as np

from reference.perceptron import Reference


class SecondOrderProjectron(Reference):
    names = ("delta", "variance", "tau", "norm")

    def __init__(self, K, y, budget, threshold, r, linear=None):
        super().__init__(K, y)
        self.budget, self.threshold, self.r = budget, threshold, r
        # Inner products of what stands beside the images, if anything does
        self.beside = np.zeros_like(K) if linear is None else linear
        # The rounds that were updated on; the coefficients of each one's image, over all rounds; products
        self.seen, self.images, self.G = [], np.zeros((0, len(K))), np.zeros((0, 0))
        self.weights = np.zeros(0)  # w = sum of weights times phi over these

    def image(self, t):
        """d* (002 eq. 8) of round t, over all rounds, and ||delta||^2 (9)."""
        S = list(self.alpha)
        d = np.zeros(len(self.K))
        d[S] = np.linalg.solve(self.K[np.ix_(S, S)], self.K[S, t]) if S else 0.0
        delta2 = self.K[t, t] - float(self.K[t] @ d)
        return d, delta2 if delta2 >= 1e-12 * self.K[t, t] else 0.0

    def products(self, t, image):
        """Inner products of phi with those that were updated on."""
        return self.images @ (self.K @ image) + self.beside[self.seen, t]

    def f(self, t, alpha=None):
        return float(self.weights @ self.products(t, self.image(t)[0])) if self.seen else 0.0

    def learn(self, t, margin):
        self.near(1 - self.y[t] * margin)
        if self.y[t] * margin < 1:
            self.update(t, margin)

    def update(self, t, margin):
        image, delta2 = self.image(t)
        if delta2 > 0:
            self.near(delta2 - self.threshold)
        if delta2 > self.threshold and len(self.alpha) < self.budget:
            image = np.zeros(len(self.K))
            image[t] = 1.0
            self.alpha[t] = 0.0
        g = self.products(t, image)
        told = np.linalg.solve(self.r * np.eye(len(g)) + self.G, g)
        own = float(image @ self.K @ image) + self.beside[t, t]
        v = own - float(g @ told)  # phi' Sigma phi
        tau = (1 - self.y[t] * margin) / (v + self.r)
        self.entry.update(delta=sqrt(delta2), variance=v, tau=tau)
        # w += tau y Sigma phi
        self.weights = np.append(self.weights - tau * self.y[t] * told, tau * self.y[t])
        self.seen, self.images = [*self.seen, t], np.vstack([self.images, image])
        self.G = np.block([[self.G, g[:, None]], [g[None, :], np.array([[own]])]])
        self.alpha = {i: float(self.weights @ self.images[:, i]) for i in self.alpha}

    def norm(self, alpha=None):
        return sqrt(max(float(self.weights @ self.G @ self.weights), 0.0))
