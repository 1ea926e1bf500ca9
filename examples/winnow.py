"""Many irrelevant features: Winnow against the Perceptron.

Rows of -1 and +1 are labelled by the majority of three features. The mistakes of the Perceptron grow with the
number N of all features, those of Winnow with log N (Theorems 8.8 and 8.13 of Mohri et al.).

    python examples/winnow.py [--output winnow.png]
"""

from _growth import draw, output_path

from budgetron import bounds, linear
from budgetron.streams import majority

RELEVANT, ROWS, RUNS = 3, 4000, 5
FEATURES = (10, 30, 100, 300, 1000)


def rows(features, run):
    X, y, _ = majority(ROWS, features, RELEVANT, random_state=run)
    return X, y


def main():
    draw(
        output_path(__doc__, "winnow.png"),
        "number of features",
        FEATURES,
        rows,
        {
            "Perceptron": lambda: linear.Perceptron(fit_intercept=False),
            "Winnow": lambda: linear.Winnow(eta=1 / RELEVANT),
        },
        {
            "Perceptron": lambda features: bounds.majority_perceptron(features, RELEVANT),
            "Winnow": lambda features: bounds.winnow(1.0, 1 / RELEVANT, features),
        },
        RUNS,
    )


if __name__ == "__main__":
    main()
