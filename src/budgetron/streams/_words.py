"""Text becomes features: its words are hashed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

import numpy as np

from budgetron.streams._running import Floats

__all__ = ["hashed_words"]

_WORD = re.compile(r"\w+")


def hashed_words(texts: Sequence[str], name: str, n_features: int) -> Floats:
    """Return one row for each text: how often its words occur, divided by the norm of the row.

    The feature of a word is the CRC-32 of the column's name and the word in lower case.
    """
    salt = crc32(name.encode())
    rows = np.zeros((len(texts), n_features))
    known: dict[str, int] = {}
    for row, text in zip(rows, texts, strict=True):
        for word in _WORD.findall(text.lower()):
            place = known.get(word)
            if place is None:
                place = known[word] = crc32(word.encode(), salt) % n_features
            row[place] += 1.0
    norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    scaled: Floats = rows / np.maximum(norms, 1e-300)
    return scaled
