"""Sizes in bytes: one meaning of kB, MB and GB, for input and output."""

from __future__ import annotations

import re
from numbers import Integral

__all__ = ["format_bytes", "parse_bytes"]

# 1 MB is 2 ** 20 bytes, so that a model that fills memory="16MB" is reported as 16 MB.
KILO = 1024
UNITS = ("B", "kB", "MB", "GB", "TB")
FACTORS = {"": 1, "k": KILO, "m": KILO**2, "g": KILO**3}


def parse_bytes(size: int | str, name: str = "memory") -> int:
    """Return a number of bytes, given as a number or as text.

    Parameters
    ----------
    size : int or str
    name : str
        What the size is called in the error message.

    Examples
    --------
    >>> parse_bytes(1000), parse_bytes("64kB"), parse_bytes("1.5 MB")
    (1000, 65536, 1572864)
    """
    number = 0.0
    if isinstance(size, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmg]?)i?b?\s*", size, re.IGNORECASE)
        if found:
            number = float(found[1]) * FACTORS[found[2].lower()]
    elif isinstance(size, Integral) and not isinstance(size, bool):
        number = int(size)
    if number >= 1:
        return int(number)
    raise ValueError(
        f'{name} must be a number of bytes above 0, or text like "64kB", "16MB" or "1GB"; got {size!r}'
    )


def format_bytes(count: float) -> str:
    """Return a number of bytes as text of three digits.

    Examples
    --------
    >>> format_bytes(999), format_bytes(12_345), format_bytes(16 * 2**20)
    ('999 B', '12.1 kB', '16 MB')
    """
    size, place = float(count), 0
    while place < len(UNITS) - 1 and round(size) >= KILO:
        size /= KILO
        place += 1
    # Three digits, but never an exponent: 1234 TB stays 1234 TB.
    return f"{size:.0f} {UNITS[place]}" if size >= 100 else f"{size:.3g} {UNITS[place]}"
