"""The bound of online gradient descent in a space of functions, with errors by budget maintenance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from budgetron.bounds._statement import Check, assume, theorem


@theorem(
    "Kivinen, Smola, Williamson (2004), with errors; proof in its docstring",
    "`OGD`, `BOGD`, `BSGD`, `FOGD`",
    "mistakes",
    "convex losses, steps above 0",
)
def online_gradient_descent(
    norm: float,
    losses: float,
    steps: ArrayLike,
    norms: ArrayLike,
    gradients: ArrayLike,
    errors: ArrayLike = 0.0,
    variances: ArrayLike = 0.0,
    decay: float = 0.0,
    least_loss: float = 1.0,
    *,
    check: Check = True,
) -> float:
    """Return the bound on the mistakes of gradient descent, from the ledger of a run.

    It is no guarantee in advance, because it contains the norms and the errors of the run.

    Parameters
    ----------
    norm : float
        ||g|| of the competitor.
    losses : float
        The sum of its losses l_t(g).
    steps, norms, gradients : array-like of shape (n_rounds,)
        The step eta_t, ||f_t|| before the update, and the norm of the gradient of the loss at f_t.
    errors : array-like
        ||e_t||: what budget maintenance adds to the hypothesis after the step.
    variances : array-like
        The expected square of a random change with mean 0. Then the bound holds for the expected mistakes.
    decay : float
        lambda, of the regularized losses l_t(f) + lambda / 2 ||f||^2.
    least_loss : float
        The least loss of a mistake.

    Notes
    -----
    Let G_t be the gradient of the regularized loss at f_t, E_t = e_t / eta_t and D_t = ||f_t - g||^2. A round
    sets f_{t+1} = f_t - eta_t (G_t - E_t), so that

        <G_t, f_t - g> = (D_t - D_{t+1}) / (2 eta_t) + eta_t / 2 ||G_t - E_t||^2 + <E_t, f_t - g>.

    The regularized loss is strongly convex: the left-hand side is at least its value at f_t minus that at g
    plus lambda / 2 D_t. Sum over t, use D_t <= (||f_t|| + ||g||)^2 where its factor
    1 / (2 eta_t) - 1 / (2 eta_{t-1}) - lambda / 2 is positive, and 0 where it is not. Each mistake has at
    least the loss `least_loss`. A random change with mean 0 adds its variance to the expectation of D_{t+1}.
    """
    eta, before = np.asarray(steps, float), np.asarray(norms, float)
    assume(check, bool(np.all(eta > 0)), "a step above 0", float(eta.min(initial=np.inf)))
    error = np.asarray(errors, float) / eta
    size = np.asarray(gradients, float) + decay * before + error
    half = 1 / (2 * eta)
    factors = np.diff(half, prepend=0.0) - decay / 2
    distances = before + norm
    regret = (
        decay / 2 * np.sum(norm**2 - before**2)
        + np.sum(np.maximum(factors, 0.0) * distances**2)
        + np.sum(eta / 2 * size**2)
        + np.sum(error * distances)
        + np.sum(np.asarray(variances, float) * half)
    )
    return float(losses + regret) / least_loss
