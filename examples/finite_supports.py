"""Why the Projectron needs no budget.

By Theorem 1 of the Projectron paper the number of supports is finite for every threshold eta above 0, however
long the stream is: supports are at least eta apart in the space of the kernel. The Perceptron stores every
mistake of this noisy stream.

    python examples/finite_supports.py [--output finite_supports.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from budgetron import KernelPerceptron, Projectron
from budgetron.streams import two_gaussians

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROUNDS = 20_000
THRESHOLDS = (0.1, 0.3, 0.6)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("finite_supports.png"), help="file of the figure")
    options = parser.parse_args()
    X, y = two_gaussians(ROUNDS, random_state=0)
    X = np.clip(X, -4, 4)  # the theorem assumes a compact set of rows
    sizes = {"Perceptron": KernelPerceptron(gamma=0.5).progressive_fit(X, y).support_sizes}
    for eta in THRESHOLDS:
        trace = Projectron(eta=eta, gamma=0.5).progressive_fit(X, y)
        sizes[f"Projectron, eta = {eta}"] = trace.support_sizes

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, values in sizes.items():
        axis.plot(np.arange(1, ROUNDS + 1), values, label=name)
    axis.set(xscale="log", yscale="log", xlabel="round", ylabel="supports")
    axis.legend(frameon=False)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    for name, values in sizes.items():
        print(
            f"{name}: {values[ROUNDS // 2]} supports after {ROUNDS // 2} rounds, {values[-1]} after {ROUNDS}"
        )
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
