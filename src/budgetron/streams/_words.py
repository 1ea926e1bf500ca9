"""Text becomes features: its words are hashed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from scipy.sparse import csr_matrix

__all__ = ["hashed_words"]

_WORD = re.compile(r"\w+")


def hashed_words(texts: Sequence[str], name: str, n_features: int) -> csr_matrix:
    """Return one sparse row for each text: how often its words occur, divided by the norm of the row.

    The feature of a word is the CRC-32 of the column's name and the word in lower case.
    """
    salt = crc32(name.encode())
    known: dict[str, int] = {}
    places: list[int] = []
    ends = [0]
    for text in texts:
        for word in _WORD.findall(text.lower()):
            place = known.get(word)
            if place is None:
                place = known[word] = crc32(word.encode(), salt) % n_features
            places.append(place)
        ends.append(len(places))
    rows = csr_matrix((np.ones(len(places)), places, ends), shape=(len(texts), n_features))
    rows.sum_duplicates()
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    rows.data /= np.repeat(norms, np.diff(rows.indptr))
    return rows
