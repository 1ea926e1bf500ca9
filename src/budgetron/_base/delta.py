"""`Delta`: what a model with a Gaussian hypothesis has learned between two states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from budgetron._base.natural import Natural, packed, unpacked
from budgetron._util.checks import MOST_ROUNDS, require, require_finite, require_int, require_names
from budgetron._util.packed import pack, unpack
from budgetron._util.types import Floats

__all__ = ["Delta", "merge_period", "require_same_coordinates"]

KIND, VERSION, WHAT = b"BTRDELTA", 1, "a delta"
ARRAYS = ("precision", "shifts", "own_precision", "own_shifts")


@dataclass(frozen=True, eq=False, repr=False)
class Delta:
    """What a model has learned between two states, in a form that can be added to other models.

    `model.delta(since)` returns it, and `model.merge(deltas)` adds it. `delta + delta` is what both together
    have learned.

    Attributes
    ----------
    rounds, mistakes, updates : int
        Numbers of rounds, mistakes and updates between the two states.
    coordinates : dict
        What the Gaussian is about: the class of the model, its parameters, classes, features and supports.
        Only deltas with the same coordinates can be added.
    natural : Natural
        The change of the precision, and of the precision times the means.
    """

    rounds: int
    mistakes: int
    updates: int
    coordinates: dict[str, str]
    natural: Natural

    def __add__(self, other: Delta) -> Delta:
        if not isinstance(other, Delta):
            return NotImplemented
        require_same_coordinates(self.coordinates, other.coordinates, "one delta", "the other")
        return Delta(
            self.rounds + other.rounds,
            self.mistakes + other.mistakes,
            self.updates + other.updates,
            self.coordinates,
            self.natural.plus(other.natural),
        )

    @property
    def nbytes(self) -> int:
        """About the bytes of `to_bytes`."""
        return sum(array.nbytes for array in self._arrays().values())

    def _arrays(self) -> dict[str, Floats]:
        natural = self.natural
        return {name: getattr(natural, name) for name in ARRAYS} | {"precision": packed(natural.precision)}

    def to_bytes(self) -> bytes:
        """Return the delta as bytes, which contain no code. They are checked when they are read."""
        counts = {"rounds": self.rounds, "mistakes": self.mistakes, "updates": self.updates}
        return pack(KIND, VERSION, counts | {"coordinates": self.coordinates}, self._arrays())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the delta of `to_bytes`.

        Parameters
        ----------
        data : bytes

        Returns
        -------
        Delta

        Raises
        ------
        ValueError
            If the bytes are no delta, are damaged, or were written by a newer version.
        """
        _, values, arrays = unpack(KIND, VERSION, WHAT, data)
        require_names(values, {"rounds", "mistakes", "updates", "coordinates"}, WHAT)
        require_names(arrays, set(ARRAYS), f"the arrays of {WHAT}")
        rounds = require_int(values["rounds"], 0, MOST_ROUNDS, f"rounds of {WHAT}")
        mistakes = require_int(values["mistakes"], 0, rounds, f"mistakes of {WHAT}")
        updates = require_int(values["updates"], 0, rounds, f"updates of {WHAT}")
        coordinates = values["coordinates"]
        require(
            isinstance(coordinates, dict) and all(isinstance(text, str) for text in coordinates.values()),
            f"the coordinates of {WHAT} should be a table of texts",
        )
        return cls(rounds, mistakes, updates, coordinates, _natural(arrays))

    def __reduce__(self) -> Any:
        # pickle, as used by process pools, calls from_bytes, so that these bytes are checked as well
        return Delta.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"Delta({self.rounds} rounds, {self.mistakes} mistakes)"


def require_same_coordinates(one: dict[str, str], other: dict[str, str], first: str, second: str) -> None:
    """Raise `ValueError` unless two tables of coordinates are equal; say whose they are and what differs."""
    for name in one | other:
        a, b = one.get(name, "nothing"), other.get(name, "nothing")
        if a != b:
            raise ValueError(
                "only what models of one kind have learned over the same coordinates can be added: "
                f"{first} has the {name} {a[:80]}, and {second} has {b[:80]}"
            )


def _natural(arrays: dict[str, Any]) -> Natural:
    """Return natural parameters, after checking that their shapes fit together."""
    for name, array in arrays.items():
        dimensions = 2 if name.endswith("shifts") else 1
        require(array.dtype == np.float64 and array.ndim == dimensions, f"{name} of {WHAT} has a wrong shape")
        require_finite(array, f"{name} of {WHAT}")
    outputs, n = arrays["shifts"].shape
    require(arrays["precision"].shape == (n * (n + 1) // 2,), f"precision of {WHAT} has a wrong length")
    require(
        arrays["own_shifts"].shape == (outputs, len(arrays["own_precision"])),
        f"own_shifts of {WHAT} has a wrong shape",
    )
    return Natural(**(arrays | {"precision": unpacked(arrays["precision"])}))


def merge_period(rounds: int, workers: int, *, least: int = 4, most: int | None = 512) -> int:
    """Return how many rows each worker should learn before the next merge.

    At first a model changes quickly, and workers that learn many rows apart all learn the same things. Later
    each row changes little, and rare merges cost little accuracy. So the period grows with the rounds: all
    workers together learn an eighth of the rounds so far, each from 4 to 512 rows. Periods that start again
    from short ones only cost time. Workers that are never merged lose accuracy.

    Parameters
    ----------
    rounds : int
        Rounds of the whole stream so far: `model.rounds_` of the merged model.
    workers : int
        Number of workers.
    least, most : int, default=4 and 512
        Limits of the period. None for `most` means no limit.

    Returns
    -------
    int

    Examples
    --------
    >>> from budgetron.merging import merge_period
    >>> [merge_period(rounds, workers=16) for rounds in (0, 1000, 10_000, 100_000)]
    [4, 7, 78, 512]
    """
    limits = (("rounds", rounds, 0), ("workers", workers, 1), ("least", least, 1), ("most", most, least))
    for name, value, smallest in limits:
        if value is not None and (int(value) != value or value < smallest):
            raise ValueError(f"{name} must be a whole number of at least {smallest}; got {value}")
    period = max(int(rounds) // (8 * workers), least)
    return period if most is None else min(period, most)
