"""Data sets of the papers and of their field, ready to learn from.

Each loader returns a `Dataset`, which unpacks like a pair: `X, y = load_adult()`. It reads from
the folder that the environment variable BUDGETRON_DATA names if the files are there, and asks
OpenML otherwise; scikit-learn keeps what was fetched. `available` says what there is, and where.
Nothing here knows of a learner.
"""

from budgetron.datasets._available import Available, available
from budgetron.datasets._census import load_census_income
from budgetron.datasets._loaders import (
    load_adult,
    load_covertype,
    load_electricity,
    load_ijcnn1,
    load_letter,
    load_mnist,
    load_phishing,
    load_spambase,
    load_usps,
    load_vehicle,
)
from budgetron.datasets._sources import DataNotFoundError, Dataset, UnexpectedDataError

__all__ = [
    "Available",
    "DataNotFoundError",
    "Dataset",
    "UnexpectedDataError",
    "available",
    "load_adult",
    "load_census_income",
    "load_covertype",
    "load_electricity",
    "load_ijcnn1",
    "load_letter",
    "load_mnist",
    "load_phishing",
    "load_spambase",
    "load_usps",
    "load_vehicle",
]
