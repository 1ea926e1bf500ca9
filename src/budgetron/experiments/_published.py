"""The numbers in the tables of the papers, as published."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FORGETRON", "PROJECTRON", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One row of a table of the Projectron paper: mistakes (in percent), supports, standard deviations."""

    error: float
    error_sd: float
    supports: float
    supports_sd: float = 0.0


# 002 Tables 1 to 3: for each data set, learner and budget (0 for those that have none)
PROJECTRON: dict[str, dict[tuple[str, int], Entry]] = {
    "adult": {
        ("Perceptron", 0): Entry(20.99, 0.06, 6835.6, 20.28),
        ("PA-I", 0): Entry(18.11, 0.10, 12537, 36.2),
        ("Projectron", 1500): Entry(20.95, 0.12, 1094.6, 16.06),
        ("Projectron++", 1500): Entry(20.04, 0.14, 992.8, 9.73),
        ("Forgetron", 1500): Entry(21.90, 0.23, 1500),
        ("RBP", 1500): Entry(22.05, 0.21, 1500),
        ("Stoptron", 1500): Entry(22.73, 2.82, 1500),
        ("Projectron", 3000): Entry(20.97, 0.13, 1499.6, 13.58),
        ("Projectron++", 3000): Entry(20.16, 0.11, 1364.2, 4.76),
        ("Forgetron", 3000): Entry(21.41, 0.13, 3000),
        ("RBP", 3000): Entry(21.49, 0.11, 3000),
        ("Stoptron", 3000): Entry(21.04, 1.54, 3000),
    },
    "vehicle": {
        ("Perceptron", 0): Entry(19.58, 0.09, 15432.0, 69.62),
        ("PA-I", 0): Entry(15.27, 0.05, 30131.4, 21.07),
        ("Projectron", 4000): Entry(19.63, 0.08, 3496.4, 18.39),
        ("Projectron++", 4000): Entry(18.27, 0.06, 3187.0, 13.64),
        ("Forgetron", 4000): Entry(20.40, 0.04, 4000),
        ("RBP", 4000): Entry(20.32, 0.04, 4000),
        ("Stoptron", 4000): Entry(19.49, 3.56, 4000),
        ("Projectron", 8000): Entry(19.62, 0.04, 4668.2, 32.88),
        ("Projectron++", 8000): Entry(18.53, 0.07, 4309.6, 28.67),
        ("Forgetron", 8000): Entry(19.98, 0.06, 8000),
        ("RBP", 8000): Entry(19.94, 0.06, 8000),
        ("Stoptron", 8000): Entry(20.17, 2.03, 8000),
    },
    "gaussians": {
        ("Perceptron", 0): Entry(18.80, 0.25, 1880.0, 25.12),
        ("PA-I", 0): Entry(12.58, 0.05, 3986.8, 42.83),
        ("Projectron", 1000): Entry(18.71, 0.14, 108.6, 2.97),
        ("Projectron++", 1000): Entry(14.09, 0.10, 104.2, 2.39),
        ("Forgetron", 1000): Entry(18.96, 0.32, 1000),
        ("RBP", 1000): Entry(18.86, 0.29, 1000),
        ("Stoptron", 1000): Entry(17.49, 1.77, 1000),
        ("Projectron", 500): Entry(18.70, 0.21, 98.6, 3.05),
        ("Projectron++", 500): Entry(14.23, 0.10, 98.6, 2.30),
        ("Forgetron", 500): Entry(19.20, 0.19, 500),
        ("RBP", 500): Entry(19.27, 0.20, 500),
        ("Stoptron", 500): Entry(21.96, 4.62, 500),
    },
}

_COLUMNS = ("Perceptron", "basic", "self-tuned", "greedy", "CKS")

# 003 Table 8.1: for each budget, as a share of the Perceptron's supports, and data set
FORGETRON: dict[tuple[str, float], dict[str, float]] = {
    (name, share): dict(zip(_COLUMNS, row, strict=True))
    for name, share, row in [
        ("mnist", 0.25, (6.08, 35.22, 11.25, 9.54, 17.45)),
        ("usps", 0.25, (7.73, 40.70, 14.88, 12.70, 18.52)),
        ("census", 0.25, (20.33, 30.44, 22.31, 24.06, 33.48)),
        ("noise-5", 0.25, (9.56, 11.60, 9.89, 11.84, 32.76)),
        ("noise-10", 0.25, (18.16, 20.30, 18.38, 21.07, 41.13)),
        ("mnist", 0.5, (6.08, 27.05, 8.62, 7.78, 9.02)),
        ("usps", 0.5, (7.73, 31.95, 11.03, 9.78, 10.26)),
        ("census", 0.5, (20.33, 26.67, 21.40, 23.70, 27.82)),
        ("noise-5", 0.5, (9.56, 10.66, 9.70, 11.98, 20.16)),
        ("noise-10", 0.5, (18.16, 19.10, 18.27, 21.74, 30.05)),
        ("mnist", 1.0, (6.08, 16.07, 6.08, 6.08, 6.08)),
        ("usps", 1.0, (7.73, 20.29, 7.73, 7.73, 7.73)),
        ("census", 1.0, (20.33, 22.06, 20.33, 20.33, 20.33)),
        ("noise-5", 1.0, (9.56, 9.79, 9.56, 9.56, 9.56)),
        ("noise-10", 1.0, (18.16, 18.37, 18.16, 18.16, 18.16)),
    ]
}
