"""Facts about each data set: its files, its OpenML entry, its number of rows, features and classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["CATALOGUE", "Entry", "Part"]

LIBSVM = ("", ".bz2", ".gz")


@dataclass(frozen=True)
class Part:
    """A part of a data set.

    `counts` is the number of rows of each class, in the order of the labels, if it is known. `files` are
    without suffix; for each of them, the first of `suffixes` that exists is read.
    """

    rows: int
    counts: tuple[int, ...] | None
    files: tuple[str, ...]
    suffixes: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Entry:
    """A data set; `openml` holds the arguments of `fetch_openml`."""

    name: str
    features: int
    classes: int
    parts: Mapping[str, Part]
    openml: Mapping[str, str | int]
    description: str

    @property
    def loader(self) -> str:
        """The name of the function that loads it."""
        return f"load_{self.name}"

    @property
    def openml_id(self) -> int | None:
        """The number of the data set on OpenML; None if it is found by its name."""
        number = self.openml.get("data_id")
        return None if number is None else int(number)


# fmt: off
_LETTERS = (
    (594, 567, 554, 598, 565, 565, 547, 538, 567, 575, 572, 560, 607,
     605, 574, 597, 594, 568, 563, 599, 606, 581, 576, 583, 602, 543),
    (195, 199, 182, 207, 203, 210, 226, 196, 188, 172, 167, 201, 185,
     178, 179, 206, 189, 190, 185, 197, 207, 183, 176, 204, 184, 191),
)
# fmt: on


def _digits(part: str) -> tuple[str, ...]:
    return (f"mnist-{part}-images-idx3-ubyte", f"mnist-{part}-labels-idx1-ubyte")


_ENTRIES = (
    Entry(
        "adult",
        123,
        2,
        {
            "train": Part(32561, (24720, 7841), ("a9a",), LIBSVM),
            "test": Part(16281, (12435, 3846), ("a9a.t",), LIBSVM),
        },
        {"data_id": 1430},
        "Adult (a9a): income above 50,000 dollars, 1994 US census; B. Becker and R. Kohavi, UCI, 1996; "
        "binary features by J. Platt, 1998",
    ),
    Entry(
        "census_income",
        510,
        2,
        {
            "train": Part(199523, (187141, 12382), ("census-income.npz",)),
            "test": Part(99762, (93576, 6186), ("census-income.npz",)),
        },
        # The columns have no names, but UCI's order: V42 is the class.
        {"data_id": 4535, "target_column": "V42"},
        "Census-Income (KDD): income above 50,000 dollars, US surveys 1994-95; "
        "T. Lane and R. Kohavi, UCI, 2000",
    ),
    Entry(
        "covertype",
        54,
        7,
        {"all": Part(581012, (211840, 283301, 35754, 2747, 9493, 17367, 20510), ("covtype.npz",))},
        {"data_id": 1596},
        "Covertype: kind of forest from maps; J. A. Blackard and D. J. Dean, UCI, 1998",
    ),
    Entry(
        "electricity",
        8,
        2,
        {"all": Part(45312, (26075, 19237), ("electricity.csv",), ("", ".gz"))},
        {"data_id": 151},
        "Electricity (Elec2): does the price rise, New South Wales 1996-98; M. Harries, 1999; "
        "normalised by J. Gama",
    ),
    Entry(
        "ijcnn1",
        22,
        2,
        {
            "train": Part(49990, (45137, 4853), ("ijcnn1",), LIBSVM),
            "test": Part(91701, (82989, 8712), ("ijcnn1.t",), LIBSVM),
        },
        {"data_id": 1575},
        "IJCNN1: misfires of an engine; D. Prokhorov, IJCNN 2001 neural network competition; "
        "features by C.-C. Chang and C.-J. Lin",
    ),
    Entry(
        "letter",
        16,
        26,
        {
            "train": Part(15000, _LETTERS[0], ("letter.scale",), LIBSVM),
            "test": Part(5000, _LETTERS[1], ("letter.scale.t",), LIBSVM),
        },
        {"data_id": 6},
        "Letter: distorted capital letters of 20 fonts; P. W. Frey and D. J. Slate, 1991",
    ),
    Entry(
        "mnist",
        784,
        10,
        {
            "train": Part(
                60000,
                (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
                _digits("train"),
                ("", ".gz"),
            ),
            "test": Part(
                10000, (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009), _digits("t10k"), ("", ".gz")
            ),
        },
        {"data_id": 554},
        "MNIST: handwritten digits, 28 x 28; Y. LeCun, C. Cortes and C. J. C. Burges, 1998",
    ),
    Entry(
        "phishing",
        68,
        2,
        {"all": Part(11055, (4898, 6157), ("phishing",), LIBSVM)},
        {"data_id": 4534},
        "Phishing websites: is a page what it says; R. M. Mohammad, F. Thabtah and L. McCluskey, UCI, 2015",
    ),
    Entry(
        "spambase",
        57,
        2,
        {"all": Part(4601, (2788, 1813), ("spambase.data",), ("", ".gz"))},
        {"data_id": 44},
        "Spambase: unwanted mail; M. Hopkins, E. Reeber, G. Forman and J. Suermondt, UCI, 1999",
    ),
    Entry(
        "usps",
        256,
        10,
        {
            "train": Part(7291, (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644), ("usps.npz",)),
            "test": Part(2007, (359, 264, 198, 166, 200, 160, 170, 147, 166, 177), ("usps.npz",)),
        },
        {"data_id": 41082},
        "USPS: handwritten digits of zip codes, 16 x 16; Y. LeCun et al., 1990",
    ),
    Entry(
        "vehicle",
        100,
        3,
        {
            "train": Part(78823, None, ("combined",), LIBSVM),
            "test": Part(19705, None, ("combined.t",), LIBSVM),
        },
        {"name": "SensIT-Vehicle-Combined", "version": 1},
        "SensIT Vehicle (combined): kind of vehicle from sound and ground; M. Duarte and Y. H. Hu, 2004",
    ),
)

CATALOGUE: dict[str, Entry] = {entry.name: entry for entry in _ENTRIES}
