"""Draw the decision diagram of docs/which-learner.md.

    python examples/which_learner.py [--output which-learner.png]

Nothing is measured.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

QUESTIONS = [
    ("Do all rows fit in memory,\nwithout drift?", "gradient boosting or an SVM\n(another library)"),
    ("Are there no labels, and\nunusual rows are wanted?", "SecondOrderDetector"),
    ("Is the target a number?", "BudgetRegressor"),
    ("Are a millisecond per row and\n1 MB or more acceptable?", "BudgetClassifier"),
    ("Does a line separate\nthe classes well enough?", "linear.AROW"),
    (
        "Are a tenth of that time and\nB² stored numbers acceptable?",
        "SecondOrderProjectron\n(forget=0.999 for drift)",
    ),
]
LAST = "Forgetron,\nRandomizedBudgetPerceptron"
INK, LINE, OURS, OTHER = "#1f2937", "#9ca3af", "#dbeafe", "#f3f4f6"


def box(axes: plt.Axes, x: float, y: float, text: str, color: str, width: float) -> None:
    axes.add_patch(
        plt.Rectangle((x - width / 2, y - 0.36), width, 0.72, facecolor=color, edgecolor=LINE, lw=1)
    )
    axes.text(x, y, text, ha="center", va="center", fontsize=10, color=INK)


def arrow(axes: plt.Axes, start: tuple[float, float], end: tuple[float, float], text: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": LINE, "lw": 1.2})
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    axes.text(x + 0.12 * (start[0] == end[0]), y + 0.05, text, fontsize=9, color=INK)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("which-learner.png"), help="file of the figure")
    options = parser.parse_args()
    figure, axes = plt.subplots(figsize=(8.6, 9.8))
    for row, (question, answer) in enumerate(QUESTIONS):
        y = -1.25 * row
        box(axes, 0, y, question, "white", 3.0)
        box(axes, 4.8, y, answer, OURS if row else OTHER, 3.4)
        arrow(axes, (1.5, y), (3.1, y), "yes")
        arrow(axes, (0, y - 0.36), (0, y - 0.89), "no")
    box(axes, 0, -1.25 * len(QUESTIONS), LAST, OURS, 3.0)
    axes.set(xlim=(-1.7, 6.7), ylim=(-1.25 * len(QUESTIONS) - 0.5, 0.5))
    axes.axis("off")
    figure.savefig(options.output, dpi=110, bbox_inches="tight", facecolor="white")


if __name__ == "__main__":
    main()
