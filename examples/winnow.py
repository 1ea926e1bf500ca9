"""Many irrelevant features: Winnow against the Perceptron.

Rows of -1 and +1 are labelled by the majority of three features. The mistakes of the Perceptron grow with the
number N of all features, those of Winnow with log N (Theorems 8.8 and 8.13 of Mohri et al.).

    python examples/winnow.py [--output winnow.png]
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from budgetron import bounds, linear
from budgetron.streams import majority

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RELEVANT, ROWS, RUNS = 3, 4000, 5
FEATURES = (10, 30, 100, 300, 1000)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path("winnow.png"), help="file of the figure")
    options = parser.parse_args()
    found = {"Perceptron": [], "Winnow": []}
    limits = {"Perceptron": [], "Winnow": []}
    for features in FEATURES:
        counts = {name: [] for name in found}
        for run in range(RUNS):
            X, y, _ = majority(ROWS, features, RELEVANT, random_state=run)
            counts["Perceptron"].append(linear.Perceptron(fit_intercept=False).fit(X, y).mistakes_)
            counts["Winnow"].append(linear.Winnow(eta=1 / RELEVANT).fit(X, y).mistakes_)
        for name, values in counts.items():
            found[name].append(np.mean(values))
        limits["Perceptron"].append(bounds.majority_perceptron(features, RELEVANT))
        limits["Winnow"].append(bounds.winnow(1.0, 1 / RELEVANT, features))

    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for i, name in enumerate(found):
        axis.plot(FEATURES, found[name], "o-", color=f"C{i}", label=name)
        axis.plot(FEATURES, limits[name], "--", color=f"C{i}", label=f"bound of {name}")
    axis.set(xscale="log", yscale="log", xlabel="features N", ylabel=f"mistakes in {ROWS} rounds")
    axis.legend(frameon=False)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.output, dpi=110)
    for name in found:
        counts = dict(zip(FEATURES, (round(float(count)) for count in found[name]), strict=True))
        print(f"{name}: mistakes by number of features {counts}")
    print(f"Figure: {options.output}")


if __name__ == "__main__":
    main()
