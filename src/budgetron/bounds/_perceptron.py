"""Bounds of the Perceptron, the margin Perceptron and Winnow."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
from numpy.typing import ArrayLike

from budgetron.bounds._statement import Check, assume, require_at_most, theorem


@theorem(
    "CS269 notes, Theorem 1; Mohri et al., Theorem 8.8",
    "`linear.Perceptron`, `KernelPerceptron`",
    "mistakes",
    "separable by `margin` > 0",
)
def perceptron_separable(radius: float, margin: float, *, check: Check = True) -> float:
    """Return (r / rho)^2, if some g of norm 1 has y g(x) >= `margin` on all rounds."""
    assume(check, margin > 0, "a margin above 0", margin)
    return (radius / margin) ** 2 if margin > 0 else inf


@theorem(
    "CS269 notes, Theorem 2",
    "`linear.Perceptron(normalize=True)`",
    "mistakes",
    "separable by `margin` > 0 after normalizing",
)
def normalized_perceptron(margin: float, *, check: Check = True) -> float:
    """Return 1 / gamma_n^2, with the margin of the rows divided by their lengths."""
    return perceptron_separable(1.0, margin, check=check)


@theorem(
    "CS269 notes, section 3",
    "`linear.Perceptron`",
    "mistakes",
    "rows of -1 and +1; `relevant` odd, at most `features`",
)
def majority_perceptron(features: int, relevant: int, *, check: Check = True) -> float:
    """Return n r: a majority vote of r of n features, all -1 or +1."""
    assume(check, relevant % 2 == 1 and relevant > 0, "an odd number of relevant features", relevant)
    assume(check, relevant <= features, f"a number of relevant features of at most {features}", relevant)
    return float(features * relevant)


@theorem("Forgetron paper, Theorem 1", "`KernelPerceptron`, `linear.Perceptron`", "mistakes", "k(x, x) <= 1")
def perceptron(norm: float, losses: float, radius: float = 1.0, *, check: Check = True) -> float:
    """Return ||g||^2 + 2 sum of hinge losses."""
    require_at_most(check, radius, 1.0, "a radius sqrt(k(x, x))")
    return norm**2 + 2 * losses


@theorem("Mohri et al., Theorem 8.11", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l1(radius: float, rho: float, losses: float, *, check: Check = True) -> float:
    """Return ((r / rho + sqrt((r / rho)^2 + 4 L)) / 2)^2.

    L is the sum of max(0, 1 - y g(x) / rho) over the updates, for a g of norm 1.
    """
    assume(check, rho > 0, "a rho above 0", rho)
    ratio = radius / rho
    return ((ratio + sqrt(ratio**2 + 4 * losses)) / 2) ** 2


@theorem(
    "Mohri et al., Theorem 8.11, second inequality", "`linear.Perceptron`, `KernelPerceptron`", "updates"
)
def perceptron_l1_loose(radius: float, rho: float, losses: float, *, check: Check = True) -> float:
    """Return (r / rho + sqrt(L))^2, with L as in `perceptron_l1`."""
    assume(check, rho > 0, "a rho above 0", rho)
    return (radius / rho + sqrt(losses)) ** 2


@theorem("Mohri et al., Theorem 8.12", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l2(radius: float, rho: float, losses: float, *, check: Check = True) -> float:
    """Return (r / rho + L)^2.

    L is the root of the sum of max(0, 1 - y g(x) / rho)^2 over the updates, for a g of norm 1.
    """
    assume(check, rho > 0, "a rho above 0", rho)
    return (radius / rho + losses) ** 2


@theorem("Mohri et al., Theorem 8.11", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l1_infimum(radius: float, margins: ArrayLike, *, check: Check = True) -> float:
    """Return `perceptron_l1` at the best rho, given y g(x) of the updates for a g of norm 1.

    As a function of 1 / rho the bound has no stationary point between two neighbouring values of
    1 / margin. So the infimum is at one of these values or in the limit of large rho.
    """
    margins = np.sort(np.asarray(margins, float))
    count, below = len(margins), np.cumsum(margins)
    # rho -> infinity: the losses are 1 each
    values = [float(count)]
    for i in np.flatnonzero(margins > 0):  # the losses at rho = margins[i] are those of the smaller ones
        losses = max(0.0, i - (below[i] - margins[i]) / margins[i])
        values.append(perceptron_l1(radius, float(margins[i]), float(losses), check=False))
    return min(values)


@theorem("Mohri et al., Theorem 8.12", "`linear.Perceptron`, `KernelPerceptron`", "updates")
def perceptron_l2_infimum(radius: float, margins: ArrayLike, *, check: Check = True) -> float:
    """Return `perceptron_l2` at the best rho, given y g(x) of the updates for a g of norm 1.

    The root of the bound is convex in 1 / rho.
    """
    from scipy.optimize import minimize_scalar  # takes long to import

    margins = np.asarray(margins, float)

    def root(u: float) -> float:
        return radius * u + float(np.linalg.norm(np.maximum(0.0, 1.0 - margins * u)))

    corners = np.unique(np.append(0.0, 1.0 / margins[margins > 1e-300]))
    if len(corners) > 500:  # enough to find the neighbourhood of the minimum
        corners = corners[np.linspace(0, len(corners) - 1, 500).astype(int)]
    least = int(np.argmin([root(u) for u in corners]))
    low, high = corners[max(0, least - 1)], corners[min(len(corners) - 1, least + 1)]
    found = root(corners[least])
    if high > low:
        found = min(found, float(minimize_scalar(root, bounds=(low, high), method="bounded").fun))
    return found**2


@theorem(
    "Mohri et al., exercise 8.6",
    "`linear.MarginPerceptron`",
    "updates",
    "separable by `margin` > 0, the learner's own",
)
def margin_perceptron(radius: float, margin: float, *, check: Check = True) -> float:
    """Return 16 (r / rho)^2, if some g of norm 1 has y g(x) >= `margin` on all rounds."""
    return 16 * perceptron_separable(radius, margin, check=check)


@theorem(
    "Mohri et al., Theorem 8.13, with its eta = rho / r^2",
    "`linear.Winnow`",
    "updates",
    "separable by g >= 0, sum of g = 1, with `margin` > 0",
)
def winnow(radius: float, margin: float, features: int, *, check: Check = True) -> float:
    """Return 2 (r / rho)^2 log n, with r the largest |x_i| (and 2 n for n if balanced)."""
    assume(check, margin > 0, "a margin above 0", margin)
    return 2 * (radius / margin) ** 2 * log(features) if margin > 0 else inf


@theorem(
    "Mohri et al., Theorem 8.13, any eta", "`linear.Winnow`", "updates", "as above, and eta < 2 rho / r^2"
)
def winnow_general(radius: float, margin: float, features: int, eta: float, *, check: Check = True) -> float:
    """Return log n / (eta rho - eta^2 r^2 / 2), from the end of the theorem's proof."""
    assume(check, margin > 0, "a margin above 0", margin)
    gain = eta * margin - eta**2 * radius**2 / 2
    assume(check, gain > 0, "an eta rho - eta^2 r^2 / 2 above 0", gain)
    return log(features) / gain if gain > 0 else inf
