"""What there is, without reading or fetching any of it."""

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
        Its name, and the function of `budgetron.datasets` that loads it.
    rows : dict of str to int
        The rows of each part.
    features, classes : int
    files : tuple of str
        What the folder must hold, without the suffix of a compressed file.
    present : bool
        Whether the folder that BUDGETRON_DATA names has the files of all parts.
    openml_id : int or None
        None where OpenML is asked by name.
    cached : bool or None
        Whether scikit-learn has kept a copy of OpenML's; None if that cannot be told.
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
    """All data sets, by name, and whether each is at hand. Nothing is read or fetched.

    Parameters
    ----------
    data_home : path, optional
        Where scikit-learn keeps what it fetched; by default its own folder.

    Examples
    --------
    >>> from budgetron.datasets import available
    >>> [known.name for known in available() if known.classes > 9]
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
            entry.openml.get("data_id"),
            _cached(entry, home / "openml" / "openml.org"),
        )
        for _, entry in sorted(CATALOGUE.items())
    ]


def _cached(entry: Entry, cache: Path) -> bool | None:
    if "data_id" not in entry.openml:
        return None
    about = cache / "api" / "v1" / "json" / "data" / f"{entry.openml['data_id']}.gz"
    if not about.is_file():
        return False
    try:
        with gzip.open(about, "rt", encoding="utf-8") as file:
            url: str = json.load(file)["data_set_description"]["url"]
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
    # The data lie beside it, under the path of their address.
    return (cache / (urlparse(url).path.lstrip("/") + ".gz")).is_file()
