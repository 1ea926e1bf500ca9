"""How large a budget? Draw the error of four learners against the budget, on handwritten digits.

Each point is one pass over the stream; every row is predicted before it is learned. The dashed
line is a Perceptron without a budget, which stores every mistake.

    python examples/budget.py [--output budget.png]
"""

import argparse
from pathlib import Path

import matplotlib
from sklearn.datasets import load_digits

from budgetron import (
    Forgetron,
    KernelPerceptron,
    ProjectronPlusPlus,
    RandomizedBudgetPerceptron,
    RemoveOldestPerceptron,
)

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BUDGETS = (5, 10, 20, 40, 80, 160)
LEARNERS = {
    "RemoveOldestPerceptron": lambda B: RemoveOldestPerceptron(B, gamma=0.0005),
    "RandomizedBudgetPerceptron": lambda B: RandomizedBudgetPerceptron(B, gamma=0.0005, random_state=0),
    "Forgetron": lambda B: Forgetron(B, gamma=0.0005),
    "ProjectronPlusPlus": lambda B: ProjectronPlusPlus(budget=B, gamma=0.0005),
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("budget.png"), help="file of the figure")
    options = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    y = y % 2
    figure, axes = plt.subplots(figsize=(7.2, 4.2))
    for name, make in LEARNERS.items():
        errors = [100 * make(B).progressive_fit(X, y).error_rate for B in BUDGETS]
        axes.plot(BUDGETS, errors, marker="o", ms=4, label=name)
        print(f"{name:27}" + "".join(f"{error:6.1f}" for error in errors))
    unlimited = KernelPerceptron(gamma=0.0005)
    error = 100 * unlimited.progressive_fit(X, y).error_rate
    axes.axhline(error, color="#9ca3af", ls="--", lw=1)
    axes.annotate(
        f"without a budget: {unlimited.n_support_} supports", (BUDGETS[-1], error), (0, -12),
        textcoords="offset points", ha="right", color="#6b7280",
    )  # fmt: skip
    axes.set(xscale="log", xlabel="budget", ylabel="% mistakes", ylim=(0, None))
    axes.set_xticks(BUDGETS, [str(B) for B in BUDGETS])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(options.output, dpi=110, bbox_inches="tight", facecolor="white")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
