"""Which kernel width? Combine five widths by exponential weights.

Five Forgetrons with different widths learn a noisy two-Gaussian stream. The left panel shows their
online error and that of their combination. The right panel shows how the weights move to the best width.

    python examples/experts.py [--output experts.png]
"""

import argparse
from math import log, sqrt
from pathlib import Path

import matplotlib
import numpy as np

from budgetron import Forgetron
from budgetron.experts import ExpertClassifier
from budgetron.streams import two_gaussians

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WIDTHS = (0.01, 0.1, 1.0, 10.0, 100.0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("experts.png"), help="file of the figure")
    options = parser.parse_args()
    X, y = two_gaussians(10_000, random_state=0)
    model = ExpertClassifier([Forgetron(200, gamma=gamma) for gamma in WIDTHS], eta="doubling")
    batch = 50
    counts, losses, weights = [np.zeros(len(WIDTHS))], [0.0], [np.full(len(WIDTHS), 1 / len(WIDTHS))]
    for start in range(0, len(y), batch):
        model.partial_fit(X[start : start + batch], y[start : start + batch], classes=[-1, 1])
        counts.append(model.learner_mistakes_.copy())
        losses.append(model.algorithms_[0].loss_)
        weights.append(model.weights_[0])
    rounds = np.arange(len(losses)) * batch
    bound = sqrt(2) / (sqrt(2) - 1) * sqrt(len(y) / 2 * log(len(WIDTHS))) + sqrt(log(len(WIDTHS)) / 2)

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for gamma, mistakes in zip(WIDTHS, np.array(counts).T, strict=True):
        left.plot(rounds[4:], 100 * mistakes[4:] / rounds[4:], label=f"gamma = {gamma:g}")
    left.plot(
        rounds[4:],
        100 * np.array(losses[4:]) / rounds[4:],
        color="black",
        linewidth=2,
        label="combined (loss)",
    )
    left.set(title="online error (%)", xlabel="round")
    left.legend(frameon=False, ncols=2)
    right.stackplot(rounds, np.array(weights).T, labels=[f"gamma = {gamma:g}" for gamma in WIDTHS])
    right.set(title="weights (restarted after 1, 2, 4, ... rounds)", xlabel="round", ylim=(0, 1))
    right.set_xlim(0, len(y))
    left.grid(alpha=0.3)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    print(f"mistakes of each width: {dict(zip(WIDTHS, model.learner_mistakes_.tolist(), strict=True))}")
    print(f"regret against the best width: {model.regret_:.1f}; bound of the theorem: {bound:.1f}")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
