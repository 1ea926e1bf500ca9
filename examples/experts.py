"""Which kernel width? Five at once, combined by exponential weights.

Five Forgetrons of different widths learn a noisy two-Gaussian stream. Their combination
is drawn beside them: its online error, and how the weights move to the best.

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
    parser.add_argument("--output", type=Path, default=Path("experts.png"), help="where to draw the picture")
    options = parser.parse_args()
    X, y = two_gaussians(10_000, random_state=0)
    model = ExpertClassifier([Forgetron(200, gamma=gamma) for gamma in WIDTHS], eta="doubling")
    counts, own, weights, batch = [np.zeros(len(WIDTHS))], [0.0], [np.full(len(WIDTHS), 1 / len(WIDTHS))], 50
    for start in range(0, len(y), batch):
        model.partial_fit(X[start : start + batch], y[start : start + batch], classes=[-1, 1])
        counts.append(model.learner_mistakes_.copy())
        own.append(model.algorithms_[0].loss_)
        weights.append(model.weights_[0])
    rounds = np.arange(len(own)) * batch
    bound = sqrt(2) / (sqrt(2) - 1) * sqrt(len(y) / 2 * log(len(WIDTHS))) + sqrt(log(len(WIDTHS)) / 2)

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for gamma, mistakes in zip(WIDTHS, np.array(counts).T, strict=True):
        left.plot(rounds[4:], 100 * mistakes[4:] / rounds[4:], label=f"gamma = {gamma:g}")
    left.plot(
        rounds[4:], 100 * np.array(own[4:]) / rounds[4:], color="black", linewidth=2, label="combined (loss)"
    )
    left.set(title="online error (%)", xlabel="round")
    left.legend(frameon=False, ncols=2)
    right.stackplot(rounds, np.array(weights).T, labels=[f"gamma = {gamma:g}" for gamma in WIDTHS])
    right.set(title="weights (they start anew at 1, 2, 4, ... rounds)", xlabel="round", ylim=(0, 1))
    right.set_xlim(0, len(y))
    left.grid(alpha=0.3)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    print(f"mistakes of each width: {dict(zip(WIDTHS, model.learner_mistakes_.tolist(), strict=True))}")
    print(f"regret against the best: {model.regret_:.1f}, at most {bound:.1f} by the theorem")
    print(f"Picture: {options.output}")


if __name__ == "__main__":
    main()
