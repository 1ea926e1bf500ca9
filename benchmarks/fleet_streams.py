"""Streams with many keys: each key has a concept of its own, and the traffic is divided unevenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEATURES = 10
NOISE = 0.05  # share of labels that are wrong
SHARES = (0.4, 0.3, 0.1, 0.2)  # of keys with linear, quadratic, random and drifting concepts


@dataclass(frozen=True)
class Traffic:
    """How rows are divided among keys.

    Key i gets rows in proportion to 1 / i^skew. With `life`, it has rows only during this share of the
    stream, from a random time on. With `bursts`, it has rows only in a quarter of each of so many periods.
    """

    name: str
    skew: float
    life: float = 0.0
    bursts: int = 0


TRAFFICS = (
    Traffic("uniform", 0.0),
    Traffic("Zipf 0.8", 0.8),
    Traffic("Zipf 1.0", 1.0),
    Traffic("Zipf 1.2", 1.2),
    Traffic("Zipf 1.0 in bursts", 1.0, bursts=5),
    Traffic("Zipf 1.0, expiring keys", 1.0, life=0.2),
)


def keys_of(traffic: Traffic, keys: int, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    weights = np.arange(1, keys + 1) ** -traffic.skew
    cumulative = np.cumsum(weights / weights.sum())
    begin, phase = rng.uniform(-traffic.life, 1.0, keys), rng.random(keys)
    time = np.arange(rows) / rows
    chosen = np.empty(rows, np.int64)
    open_rows = np.arange(rows)
    while len(open_rows):  # draw again for keys that have no rows at this time
        drawn = np.minimum(np.searchsorted(cumulative, rng.random(len(open_rows))), keys - 1)
        chosen[open_rows] = drawn
        now, silent = time[open_rows], np.zeros(len(open_rows), bool)
        if traffic.life:
            silent |= (now < begin[drawn]) | (now > begin[drawn] + traffic.life)
        if traffic.bursts:
            silent |= (now * traffic.bursts + phase[drawn]) % 1.0 > 0.25
        open_rows = open_rows[silent]
    return chosen


def stream(
    traffic: Traffic, keys: int, rows: int, seed: int, common: float = 0.0
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Return keys, rows and labels. `common` is the share of the concept that all keys have in common."""
    rng = np.random.default_rng(seed)
    chosen = keys_of(traffic, keys, rows, rng)
    kind = rng.choice(4, keys, p=SHARES)[chosen]
    own, shared = rng.normal(size=(3, keys, FEATURES)), rng.normal(size=(3, 1, FEATURES))
    directions = np.sqrt(1 - common) * own + np.sqrt(common) * shared
    X = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    first, second, third = (np.einsum("ij,ij->i", X, part[chosen]) for part in directions)
    angle = 4 * np.pi * np.arange(rows) / rows
    score = np.select(
        [kind == 1, kind == 2, kind == 3],
        [first + 0.5 * second * third, rng.normal(size=rows), np.cos(angle) * first + np.sin(angle) * second],
        first,
    )
    y = score > 0
    y ^= rng.random(rows) < NOISE
    return chosen, X, y.astype(np.int64)
