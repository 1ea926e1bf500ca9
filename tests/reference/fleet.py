"""Many self-tuned Forgetrons in one memory: every step as the documentation states it, with plain lists.

Blocks of one size are a list of keys; a block that is given back is replaced by the last one of its list. A
sample is a uniformly random support, found by counting through these lists. Memory is counted in bytes, given
as functions: `limit` of the number of keys, and `block_bytes` of a number of supports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import exp, sqrt

import numpy as np

SAMPLES = 16
EVEN = 3
ROOM_FOR_PAIRS = 1.7
LEAST_PHI = 1e-6
NEGLIGIBLE = 0.01
MASK = 2**64 - 1


@dataclass
class Key:
    """What is known about one key. Supports are [row, label, coefficient], the oldest first."""

    supports: list = field(default_factory=list)
    rounds: int = 0
    mistakes: int = 0
    last: int = 0
    damage: float = 0.0
    shrinking: float = 0.0
    rows: float = 0.0
    recent_mistakes: float = 0.0
    half_mistakes: float = 0.0


def largest_phi(sigma: float, mu: float, spent: float) -> float:
    """Return the largest phi <= 1 with Psi(sigma phi, mu phi) <= -spent; 0 if there is none above 0."""
    a, b = sigma**2 - 2 * sigma * mu, 2 * sigma
    if a + b + spent <= 0:
        return 1.0
    if spent >= 0:
        return 0.0
    # The smallest root above 0 of a phi^2 + b phi + spent; the usual formula would cancel near 0.
    return -2 * spent / (b + sqrt(b * b - 4 * a * spent))


def single(number: float) -> float:
    """Return the number as four bytes hold it."""
    return float(np.float32(number))


def psi(lam: float, mu: float) -> float:
    return lam**2 + 2 * lam - 2 * lam * mu


class SharedMemory:
    """All keys, and the blocks that they have."""

    def __init__(
        self, kernel: Callable, budget: int, limit: Callable, block_bytes: Callable, seed: int = 0
    ) -> None:
        self.kernel, self.budget, self.limit, self.block_bytes = kernel, budget, limit, block_bytes
        self.keys: dict = {}
        self.blocks: list[list] = [
            [] for _ in range(budget + 1)
        ]  # by number of supports; blocks[0] is not used
        self.random, self.now, self.evicted = seed, 0, 0

    def value(self, supports: list, x: np.ndarray) -> float:
        return sum(c * self.kernel(s, x) for s, _, c in supports)

    def play(self, name: object, x: np.ndarray, y: int) -> float:
        """Play one round of a key; return the margin."""
        key = self.keys.setdefault(name, Key(last=self.now))
        f = self.value(key.supports, x)
        older = len(key.supports) // 2
        half = self.value(key.supports[older:], x)
        decay = exp((key.last - self.now) / self.decay_time(new=key.rounds == 0))
        key.rows = single(key.rows * decay + 1)
        key.recent_mistakes = single(key.recent_mistakes * decay + (y * f <= 0))
        key.half_mistakes = single(key.half_mistakes * decay + (y * half <= 0))
        key.rounds, key.last = key.rounds + 1, self.now
        self.now += 1
        if y * f <= 0:
            key.mistakes += 1
            before = len(key.supports)
            key.supports.append([x, y, float(y)])
            if len(key.supports) > self.budget:
                self.shrink_and_remove(key)
            self.resize(name, before)
            if self.evicted:
                self.remove_negligible(name)
        while self.used() > self.limit(self.seen()):
            self.evict(name)
        return f

    def shrink_and_remove(self, key: Key) -> None:
        """Shrink so that the damage stays at most 15/32 of the mistakes; remove the oldest support."""
        x, y, c = key.supports[0]
        phi = largest_phi(abs(c), y * self.value(key.supports, x), key.damage - 15 / 32 * key.mistakes)
        phi = max(phi, LEAST_PHI)
        for support in key.supports:
            support[2] *= phi
        key.damage += psi(abs(key.supports[0][2]), y * self.value(key.supports, x))
        key.shrinking += (1 - phi) / (1 + phi)
        del key.supports[0]

    def remove_negligible(self, name: object) -> None:
        """Remove old supports with negligible coefficients, after a mistake has added a support."""
        key = self.keys[name]
        before = len(key.supports)
        while len(key.supports) > 1 and abs(key.supports[0][2]) < NEGLIGIBLE:
            self.shrink_and_remove(key)
            self.evicted += 1
        self.resize(name, before)

    def seen(self) -> int:
        return sum(key.rounds > 0 for key in self.keys.values())

    def used(self) -> int:
        return sum(len(owners) * self.block_bytes(m) for m, owners in enumerate(self.blocks) if m)

    def decay_time(self, new: bool = False) -> float:
        room = self.limit(self.seen() + new)
        return max(room * self.budget / self.block_bytes(self.budget) / 2, 1.0)

    def resize(self, name: object, before: int) -> None:
        """Move a key from the blocks of its former size to those of its present one."""
        after = len(self.keys[name].supports)
        if after == before:
            return
        if after:
            self.blocks[after].append(name)
        if before:
            owners = self.blocks[before]
            owners[owners.index(name)] = owners[-1]
            owners.pop()

    def draw(self) -> int:
        """SplitMix64."""
        self.random = (self.random + 0x9E3779B97F4A7C15) & MASK
        x = self.random
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)

    def sample(self) -> object:
        """Return the owner of a random support."""
        place = self.draw() % sum(m * len(owners) for m, owners in enumerate(self.blocks))
        for m, owners in enumerate(self.blocks):
            if place < m * len(owners):
                return owners[place // m]
            place -= m * len(owners)
        raise AssertionError("there is no support")

    def decay(self, name: object) -> float:
        return exp((self.keys[name].last - self.now) / self.decay_time())

    def worth(self, name: object, even: bool) -> float:
        """Return the value of one support of a key; `even` is the result of `is_even`."""
        key = self.keys[name]
        gain = max(key.half_mistakes - key.recent_mistakes, 0)
        worth = gain + 0.05 * key.rows + 0.1
        if len(key.supports) == 1:  # predicts one class only
            return worth if even else worth / 2 * self.decay(name)
        if len(key.supports) == 2:
            return worth * 2 if even else worth * self.decay(name)
        return worth / len(key.supports) * self.decay(name)

    def is_even(self, candidates: list) -> bool:
        """Return whether there is room for pairs, and none of these keys is much busier than the average."""
        busiest = max(self.keys[name].rows * self.decay(name) for name in candidates)
        room = 2 * self.decay_time() > ROOM_FOR_PAIRS * self.seen()
        return room and busiest < EVEN * (1 + self.decay_time() / self.seen())

    def evict(self, asking: object) -> None:
        candidates = [asking] if self.keys[asking].supports else []
        while len(candidates) < SAMPLES:
            candidates.append(self.sample())
        even = self.is_even(candidates)
        victim = min(candidates, key=lambda name: self.worth(name, even))
        before = len(self.keys[victim].supports)
        self.shrink_and_remove(self.keys[victim])
        self.resize(victim, before)
        self.evicted += 1
