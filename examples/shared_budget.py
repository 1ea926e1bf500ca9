"""One budget for all classes, or one for each.

Perceptrons, one for each class, learn two streams. On the left they classify handwritten digits, of which
some are rare. There a support costs much more memory than its coefficients, and one budget for all classes
makes fewer mistakes with the same memory. On the right there are 26 classes and two features only. The
coefficients cost more than the supports, and one budget is better only if memory is very small.

    python examples/shared_budget.py [--output shared_budget.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from budgetron import RemoveOldestPerceptron, SharedBudgetPerceptron

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RUNS = 5
SUPPORTS = (50, 100, 200, 400)


def rare_digits(rng):
    """Return digits in random order; each digit occurs less often than the one before."""
    X, y = load_digits(return_X_y=True)
    chosen = rng.permutation(np.flatnonzero(rng.random(len(y)) < 0.75**y))
    return X[chosen] / 16, y[chosen], 0.2


def points(rng):
    """Return points of 26 Gaussians in the plane."""
    centres = np.random.default_rng(0).uniform(-8, 8, (26, 2))
    y = rng.integers(26, size=3000)
    return centres[y] + rng.normal(size=(3000, 2)), y, 0.5


def measure(make_stream):
    """Return the memory in kB and the mean error in percent of both learners, for several budgets."""
    found = {"a budget for each class": [], "one budget for all classes": []}
    for supports in SUPPORTS:
        errors, sizes = {name: [] for name in found}, {}
        for run in range(RUNS):
            X, y, gamma = make_stream(np.random.default_rng(run))
            classes = len(np.unique(y))
            for name, model in (
                ("a budget for each class", RemoveOldestPerceptron(max(1, supports // classes), gamma=gamma)),
                ("one budget for all classes", SharedBudgetPerceptron(supports, gamma=gamma)),
            ):
                errors[name].append(100 * model.progressive_fit(X, y).error_rate)
                sizes[name] = model.nbytes_ / 1024
        for name, points_found in found.items():
            points_found.append((sizes[name], np.mean(errors[name])))
    return {name: np.array(values) for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("shared_budget.png"), help="file of the figure")
    options = parser.parse_args()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for axis, (title, make_stream) in zip(
        axes,
        {"10 digits, 64 features": rare_digits, "26 classes, 2 features": points}.items(),
        strict=True,
    ):
        for name, values in measure(make_stream).items():
            axis.plot(values[:, 0], values[:, 1], "o-", label=name)
            shown = ", ".join(f"{error:.1f} % with {size:.0f} kB" for size, error in values)
            print(f"{title}, {name}: {shown}")
        axis.set(title=title, xlabel="memory (kB)", ylabel="online error (%)", xscale="log")
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
