"""How a budget helps when the stream changes: the two classes swap places three times.

The figure shows the share of mistakes in the last 250 rows for three learners. One stops learning when
its budget is full, one stores every mistake, and one removes its oldest supports.

    python examples/drift.py [--output drift.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from budgetron import Forgetron, KernelPerceptron, Stoptron

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WINDOW, CHANGES = 250, (3000, 6000, 9000)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("drift.png"), help="file of the figure")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1) * np.repeat([1, -1, 1, -1], 3000)
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for model, color in (
        (Stoptron(200, gamma=2.0), "#9ca3af"),
        (KernelPerceptron(gamma=2.0), "#b45309"),
        (Forgetron(200, gamma=2.0), "#1d4ed8"),
    ):
        trace = model.progressive_fit(X, y)
        recent = np.convolve(trace.mistakes, np.full(WINDOW, 100 / WINDOW), "valid")
        axes.plot(np.arange(len(recent)) + WINDOW, recent, color=color, lw=1.3,
                  label=f"{type(model).__name__}, {model.n_support_:,} supports")  # fmt: skip
        print(
            f"{type(model).__name__:17} {100 * trace.error_rate:5.1f} % mistakes, {model.n_support_} supports"
        )
    for change in CHANGES:
        axes.axvline(change, color="#d1d5db", lw=1, zorder=0)
    axes.set(xlabel="rounds", ylabel="% mistakes in the last 250 rows", ylim=(0, 100), xlim=(0, len(y)))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=9)
    figure.savefig(options.output, dpi=110, bbox_inches="tight", facecolor="white")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
