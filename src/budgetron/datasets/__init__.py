"""Data sets of the papers, and others that are common in the field.

Each loader returns a `Dataset`, which unpacks like a pair: `X, y = load_adult()`. It reads the files in the
folder given by the environment variable BUDGETRON_DATA. If they are not there, it downloads the data set from
OpenML; scikit-learn caches it. `available` lists the data sets and where each of them is.
"""

# Nothing here imports a learner.

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
