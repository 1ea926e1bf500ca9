"""Whole fleets: divide them, join them, and make bytes of them."""

from __future__ import annotations

from importlib import import_module
from numbers import Integral
from typing import Any, Self

from budgetron._util.checks import State
from budgetron.fleet._fitted import FittedFleet, same
from budgetron.fleet._state import checked_index

__all__ = ["DivisibleFleet"]


class DivisibleFleet(FittedFleet):
    """A fleet that can be divided into several, and joined with others."""

    def split(self, n: int) -> list[Self]:
        """Return n fleets, each with a part of the keys. This fleet does not change.

        The part of a key depends only on the key and on n, so that all fleets are split in the same way.

        Parameters
        ----------
        n : int

        Returns
        -------
        list of Fleet
        """
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n must be an integer above 0; got {n!r}")
        parts = [self._unlearned() for _ in range(int(n))]
        if self._is_started():
            store = self._store
            for part, numbers in zip(parts, store.parts(int(n)), strict=True):
                part.set_learned_state({"_store": store.state(numbers) | store.no_removals()})
        return parts

    def merge(self, *others: DivisibleFleet) -> Self:
        """Add the keys of other fleets, which do not change. No key may be in two of them.

        Parameters
        ----------
        *others : Fleet
            Fleets of the same learner, classes and features; the parts of a split fleet, for example. A
            common learner is that of this fleet, or if it has not learned yet, of the first one that has.
            `rows_` is the largest of theirs. How long ago a key had its last row stays as it was in its
            fleet, so that no key becomes idle by merging.

        Returns
        -------
        self
        """
        for other in others:
            if not isinstance(other, DivisibleFleet):
                raise TypeError(f"merge takes fleets; got {type(other).__name__}")
            if not same(other.get_params(), self.get_params()):
                raise ValueError("fleets with different parameters cannot be merged")
        fleets: list[DivisibleFleet] = [self, *others]
        states = [fleet._copied_state()["_store"] for fleet in fleets if fleet._is_started()]
        if states:
            merged, rows = self._unlearned(), max(state["rows"] for state in states)
            for state in states:
                merged._add(_with_rows(state, rows))
            self._store = merged._store
        return self

    def _add(self, state: State) -> None:
        """Add the keys of a state."""
        if not self._is_started():
            self.set_learned_state({"_store": state})
            return
        store, model = self._store, state["model"]
        if not same(store.model.learned_state(), model.learned_state()):
            raise ValueError(
                "fleets can be merged only if their keys start alike: with the same classes, features, type "
                "of rows, width of the kernel and random seed"
            )
        text, keys = checked_index(state["index"])
        if text != store.index.text:
            raise ValueError("fleets with keys of different kinds cannot be merged")
        twice = store.index.numbers(keys).max(initial=-1)
        if twice >= 0:
            raise ValueError(f"key {store.index.key(int(twice))!r} is in two of the fleets")
        store.append(keys, state["states"])
        store.add_counters(state)

    def _unlearned(self) -> Self:
        return type(self)(**self.get_params(deep=False))

    def to_bytes(self) -> bytes:
        """Return the fleet as bytes, in the format of model files.

        Returns
        -------
        bytes
        """
        data: bytes = _files().to_bytes(self)
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> DivisibleFleet:
        """Return the fleet that `to_bytes` was called for, after checking the bytes. They contain no code.

        Parameters
        ----------
        data : bytes

        Returns
        -------
        Fleet
        """
        fleet = _files().from_bytes(data)
        if not isinstance(fleet, DivisibleFleet):
            raise ValueError(f"these bytes are a {type(fleet).__name__}, not a fleet")
        return fleet


def _with_rows(state: State, rows: int) -> State:
    """Return the state as if the fleet had more rows, with the last row of each key as long ago as it was."""
    more = rows - state["rows"]
    counts = state["states"]["counts"].copy()
    counts[:, 2] += more
    later = {"rows": rows, "next_scan": state["next_scan"] + more}
    return state | later | {"states": state["states"] | {"counts": counts}}


def _files() -> Any:
    """The module of model files. It is above this package, and is imported only when it is used."""
    return import_module("budgetron.files")
