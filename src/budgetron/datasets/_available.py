"""List the data sets without reading or downloading them."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

from budgetron.datasets._catalogue import CATALOGUE, Entry
from budgetron.datasets._sources import find

__all__ = ["Available", "available"]


@dataclass(frozen=True)
class Available:
    """A data set that can be loaded.

    Attributes
    ----------
    name, loader : str
        The name, and the function of `budgetron.datasets` that loads the data set.
    rows : dict of str to int
        The number of rows of each part.
    features, classes : int
    files : tuple of str
        The files that the folder must contain, without the suffix of compressed files.
    present : bool
        Whether the folder given by BUDGETRON_DATA has the files of all parts.
    openml_id : int or None
        None if the data set is found on OpenML by its name.
    cached : bool or None
        Whether scikit-learn has cached the data set of OpenML; None if that is unknown.
    """

    name: str
    loader: str
    rows: dict[str, int]
    features: int
    classes: int
    files: tuple[str, ...]
    present: bool
    openml_id: int | None
    cached: bool | None


def available(*, data_home: str | os.PathLike[str] | None = None) -> list[Available]:
    """Return all data sets, sorted by name, and where each of them is. Nothing is read or downloaded.

    Parameters
    ----------
    data_home : path, optional
        The cache folder of scikit-learn; by default its usual one.

    Examples
    --------
    >>> from budgetron.datasets import available
    >>> [record.name for record in available() if record.classes > 9]
    ['letter', 'mnist', 'usps']
    """
    home = Path(data_home or os.environ.get("SCIKIT_LEARN_DATA") or "~/scikit_learn_data").expanduser()
    return [
        Available(
            entry.name,
            entry.loader,
            {name: part.rows for name, part in entry.parts.items()},
            entry.features,
            entry.classes,
            tuple(dict.fromkeys(file for part in entry.parts.values() for file in part.files)),
            all(map(find, entry.parts.values())),
            entry.openml_id,
            _cached(entry, home / "openml" / "openml.org"),
        )
        for _, entry in sorted(CATALOGUE.items())
    ]


def _cached(entry: Entry, cache: Path) -> bool | None:
    if entry.openml_id is None:
        return None
    about = cache / "api" / "v1" / "json" / "data" / f"{entry.openml_id}.gz"
    if not about.is_file():
        return False
    try:
        with gzip.open(about, "rt", encoding="utf-8") as file:
            url: str = json.load(file)["data_set_description"]["url"]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    # The data are in the same cache, under the path of their URL.
    return (cache / (urlparse(url).path.lstrip("/") + ".gz")).is_file()
