"""Rows of different length: the normalized Perceptron.

A hyperplane separates rows whose lengths lie between 1 and some largest length. The margin of the short rows
is small, so that the bound (D / gamma)^2 of the Perceptron grows with the largest length. The normalized
Perceptron (CS269 notes, section 2) makes the same mistakes whatever the lengths are.

    python examples/normalized.py [--output normalized.png]
"""

import numpy as np
from _growth import draw, output_path

from budgetron import bounds, linear
from budgetron.streams import separable

ROWS, FEATURES, MARGIN, RUNS = 3000, 10, 0.05, 5
LARGEST = (1, 3, 10, 30, 100)


def rows(largest, run):
    X, y, _ = separable(ROWS, FEATURES, MARGIN, random_state=run)
    # Lengths are uniform on a logarithmic scale.
    return X * largest ** np.random.default_rng(run).random((ROWS, 1)), y


def main():
    draw(
        output_path(__doc__, "normalized.png"),
        "largest length",
        LARGEST,
        rows,
        {
            "Perceptron": lambda: linear.Perceptron(fit_intercept=False),
            "normalized Perceptron": lambda: linear.Perceptron(normalize=True, fit_intercept=False),
        },
        {
            "Perceptron": lambda largest: bounds.perceptron_separable(largest, MARGIN),
            "normalized Perceptron": lambda _: bounds.normalized_perceptron(MARGIN),
        },
        RUNS,
    )


if __name__ == "__main__":
    main()
