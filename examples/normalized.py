"""Rows of different length: the normalized Perceptron.

A hyperplane separates rows whose lengths lie between 1 and some largest length. The margin of the short rows
is small, so that the bound (D / gamma)^2 of the Perceptron grows with the largest length. The normalized
Perceptron (CS269 notes, section 2) makes the same mistakes whatever the lengths are.

    python examples/normalized.py [--output normalized.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from budgetron import bounds, linear
from budgetron.streams import separable

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROWS, FEATURES, MARGIN, RUNS = 3000, 10, 0.05, 5
LARGEST = (1, 3, 10, 30, 100)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("normalized.png"), help="file of the figure")
    options = parser.parse_args()
    found = {"Perceptron": [], "normalized": []}
    limits = []
    for largest in LARGEST:
        counts = {name: [] for name in found}
        for run in range(RUNS):
            X, y, _ = separable(ROWS, FEATURES, MARGIN, random_state=run)
            # Lengths are uniform on a logarithmic scale.
            lengths = largest ** np.random.default_rng(run).random(ROWS)
            X *= lengths[:, None]
            plain = linear.Perceptron(fit_intercept=False)
            normalized = linear.Perceptron(normalize=True, fit_intercept=False)
            counts["Perceptron"].append(plain.fit(X, y).mistakes_)
            counts["normalized"].append(normalized.fit(X, y).mistakes_)
        for name, values in counts.items():
            found[name].append(np.mean(values))
        limits.append(bounds.perceptron_separable(largest, MARGIN))

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for i, name in enumerate(found):
        axis.plot(LARGEST, found[name], "o-", color=f"C{i}", label=name)
    axis.plot(LARGEST, limits, "--", color="C0", label="bound of the Perceptron")
    same = [bounds.normalized_perceptron(MARGIN)] * len(LARGEST)
    axis.plot(LARGEST, same, "--", color="C1", label="bound of the normalized one")
    axis.set(xscale="log", yscale="log", xlabel="largest length", ylabel=f"mistakes in {ROWS} rounds")
    axis.legend(frameon=False)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    for name in found:
        counts = dict(zip(LARGEST, (round(float(count)) for count in found[name]), strict=True))
        print(f"{name}: mistakes by largest length {counts}")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
