"""What a fleet has learned: the states of all keys, and the index that finds them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._base.access import hypotheses_of
from budgetron._base.batches import Batch
from budgetron._base.sizes import MemoryTooSmallError
from budgetron._core.fleet_states import FORGOTTEN, IDLE, KNOWN
from budgetron._core.key_index import KeyIndex, buckets
from budgetron._core.pooled_fleet import PooledFleet
from budgetron._core.rows import BatchRows
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix
from budgetron._util.units import format_bytes
from budgetron.fleet._common import CommonLearner
from budgetron.fleet._keys import Keys, is_text
from budgetron.fleet._learners import Learner, states_for

__all__ = ["FleetStore"]


class FleetStore:
    """The states of all keys of a fleet.

    Parameters
    ----------
    model : estimator
        The model that every key starts as: fitted, but before its first round.
    text : bool
        Whether keys are texts.
    idle : int
        Rows of the fleet after which a key without rows is forgotten; 0 for never.
    memory : int
        The most bytes that the fleet may keep; 0 for no limit.
    seed : int
        Seed of the samples with which a fleet with a limit chooses what to remove.
    common : CommonLearner, optional
        The learner of all keys, whose margins are added to those of each key.
    """

    def __init__(
        self, model: Learner, text: bool, idle: int, memory: int, seed: int, common: CommonLearner | None
    ) -> None:
        self.model, self.index, self.memory, self.seed = model, KeyIndex(text), memory, seed
        self.common = common
        # Bytes for the keys: the memory without the most that the common learner may take.
        self._pool = max(1, memory - common.most_bytes) if memory and common is not None else memory
        self.states = states_for(copy.deepcopy(model), idle, self._pool, seed, self.index)
        self.largest_square = 0.0  # of all rows so far
        self._reading = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers that the fleet keeps."""
        return self.index.nbytes + self.states.nbytes + (0 if self.common is None else self.common.nbytes)

    # ------------------------------------------------------------------ rounds

    def play(self, keys: Keys, batch: Batch, common: Batch | None) -> Floats:
        """Play the rounds of a checked batch; return the margins.

        `common` is the same batch as the common learner takes it.
        """
        next_scan = self.states.next_scan
        with self._common_unchanged_on_error():
            offsets = None
            if self.common is not None and common is not None:
                offsets = self.common.play(common)
            margins = self._play(keys, batch, offsets)
        if self.states.next_scan != next_scan:
            self._remove_forgotten_keys()
        self._release_room()
        return margins

    def _play(self, keys: Keys, batch: Batch, offsets: Floats | None) -> Floats:
        rows, margins = BatchRows(batch.X, self._dtype), np.empty(len(batch.codes))
        before = self.index.n
        try:
            numbers = self._numbers(keys, add=True)
            if self._bytes_of_keys() > self._pool:
                self._check_room(self._idle_besides(numbers))
                self.index.truncate(before)
                self.states.forget_idle_keys()
                self._remove_forgotten_keys()
                before = self.index.n
                numbers = self._numbers(keys, add=True)
            self.states.resize(self.index.n)
            with self._unchanged_on_error(batch, numbers):
                self.states.play(numbers, rows, batch.labels[0], margins, offsets, batch.importances)
        except BaseException:
            self.states.truncate(before)
            self.index.truncate(before)
            self._release_room()
            raise
        self.largest_square = max(self.largest_square, batch.square)
        self.states.enlarge_pages()
        return margins

    def _check_room(self, removable: Sequence[int] = ()) -> None:
        """Raise `MemoryTooSmallError` if the memory is too small even for the keys without supports.

        Keys with the numbers `removable` do not count.
        """
        needed, n = self._bytes_of_keys(removable), self.index.n - len(removable)
        if needed > self._pool:
            raise MemoryTooSmallError(
                f"{n:,} keys take {format_bytes(needed)} without any supports, and memory is "
                f"{format_bytes(self.memory)}; use a larger memory, or let keys expire with idle",
                needed,
            )

    def _bytes_of_keys(self, removable: Sequence[int] = ()) -> int:
        """Return the bytes of the other keys of the index without supports; 0 if there is no limit."""
        if not isinstance(self.states, PooledFleet):
            return 0
        texts = [str(self.index.key(number)) for number in removable] if self.index.text else []
        text_bytes = self.index.text_bytes - sum(len(text.encode()) + 4 for text in texts)
        return self.states.bytes_of_keys(self.index.n - len(removable), text_bytes)

    def _idle_besides(self, numbers: Ints) -> list[int]:
        """Return the numbers of the keys that are forgotten or idle, except these."""
        removable = self.states.conditions() != KNOWN
        removable[numbers[numbers < len(removable)]] = False
        return np.flatnonzero(removable).tolist()

    def _release_room(self) -> None:
        """Free the room of keys that were removed, if the memory is exceeded.

        Supports may take all bytes that the keys with rounds leave. Keys that a scan has forgotten, and keys
        of a batch that failed, must then leave nothing.
        """
        if self.memory and self.nbytes > self.memory:
            self.index.release_room()
            self.states.release_room()

    def decide(self, keys: Keys, X: Matrix) -> Floats:
        """Return the margin of each row; for a key without rows, that of the common learner or 0."""
        margins, numbers = np.empty(X.shape[0]), self._numbers(keys)
        with self._reading:  # states are loaded into one learner, which only one thread may use
            offsets = None if self.common is None else self.common.decide(X)
            self.states.decide(numbers, BatchRows(X, self._dtype), margins, offsets)
        return margins

    def _remove_forgotten_keys(self) -> None:
        """Remove the keys that have learned nothing since they were forgotten.

        Idle keys that the next scan will forget stay: when their supports are removed must not depend on how
        the rows are cut into batches.
        """
        for number in np.flatnonzero(self.states.conditions() == FORGOTTEN)[::-1].tolist():
            self.states.remove(number)
            self.index.remove(number)

    def known_keys(self) -> Ints:
        """Return the numbers of the keys that had rows recently enough."""
        return np.flatnonzero(self.states.conditions() == KNOWN)

    @property
    def expired(self) -> int:
        """Keys that were forgotten, or will be by the next scan."""
        return self.states.expired + int(np.count_nonzero(self.states.conditions() == IDLE))

    def _numbers(self, keys: Keys, add: bool = False) -> Ints:
        if is_text(keys) != self.index.text:
            kinds = ("integers", "texts")
            raise TypeError(
                f"keys are {kinds[self.index.text]} since the first call; got {kinds[not self.index.text]}"
            )
        return self.index.numbers(keys, add)

    @property
    def _dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = hypotheses_of(self.model)[0].dtype
        return dtype

    @contextmanager
    def _common_unchanged_on_error(self) -> Iterator[None]:
        """Restore the common learner if a batch fails."""
        before = None if self.common is None else self.common.state()
        try:
            yield
        except BaseException:
            if self.common is not None and before is not None:
                self.common.restore(before)
            raise

    @contextmanager
    def _unchanged_on_error(self, batch: Batch, numbers: Ints) -> Iterator[None]:
        """Restore the states if a round fails. Only very large or very small values can cause this."""
        states, counters = self.states, self._counters()
        safe = batch.importances is None and states.is_safe(max(batch.square, self.largest_square))
        if not safe:
            states.save_before(numbers)
        try:
            yield
        except BaseException:
            if not safe:
                states.restore()
            self.set_counters(counters)
            raise
        finally:
            states.drop_backup()

    # ------------------------------------------------------------------ single keys

    def number(self, key: Keys) -> int:
        """Return the number of a key; -1 if it is not known, or to be forgotten."""
        number = int(self._numbers(key)[0]) if is_text(key) == self.index.text else -1
        return -1 if number >= 0 and self.states.is_idle(number) else number

    def model_of(self, number: int) -> Learner:
        """Return a model with the state of a key."""
        model = copy.deepcopy(self.model)
        self.states.copy_to(number, hypotheses_of(model)[0])
        return model

    # ------------------------------------------------------------------ state

    def state(self, numbers: Ints | None = None) -> State:
        """Return the state of the keys of these numbers, or of all, as values that a file can hold.

        All keys are those with rounds, also idle ones: their supports take memory until the next scan.
        """
        chosen = np.flatnonzero(self.states.conditions() != FORGOTTEN) if numbers is None else numbers
        return {
            "model": self.model,
            "index": self.index.state(chosen),
            "states": self.states.state(chosen),
            **({} if self.common is None else {"common": self.common.state()}),
            **self._counters(),
        }

    def parts(self, n: int) -> list[Ints]:
        """Return the numbers of the known keys of each of n parts; the key and n decide on its part."""
        known = self.known_keys()
        keys = self.index.all_keys()[known]
        part = buckets(keys.tolist() if self.index.text else keys, n)
        return [known[part == i] for i in range(n)]

    def append(self, keys: Keys, states: dict[str, NDArray[Any]]) -> None:
        """Add keys with states that were checked. No key may be known already."""
        before = self.index.n
        self.index.numbers(keys, add=True)
        if self.index.n != before + len(keys):
            self.index.truncate(before)
            raise ValueError("each key should occur once")
        try:
            self._check_room()
            self.states.append(states)
        except BaseException:
            self.states.truncate(before)
            self.index.truncate(before)
            raise
        finally:
            self._release_room()
        if "square" in states:
            self.largest_square = max(self.largest_square, float(states["square"].max(initial=0.0)))
        self.states.enlarge_pages()

    def _counters(self) -> dict[str, int]:
        return {name: getattr(self.states, name) for name in self.counter_names}

    @property
    def counter_names(self) -> list[str]:
        """The names of the numbers that the fleet as a whole has."""
        return ["rows", "expired", "next_scan", *(["evicted", "random"] if self.memory else [])]

    def add_counters(self, state: State) -> None:
        """Count what the keys of a state, which were added, have done."""
        states = self.states
        states.rows = max(states.rows, state["rows"])
        states.next_scan = min(states.next_scan, state["next_scan"])
        states.expired += state["expired"]
        if isinstance(states, PooledFleet):
            states.evicted += state["evicted"]

    def no_removals(self) -> dict[str, int]:
        """Return the counters of removals as they are at the start."""
        return {name: 0 for name in self.counter_names if name in ("expired", "evicted")}

    def set_counters(self, counters: dict[str, int]) -> None:
        for name, value in counters.items():
            setattr(self.states, name, value)
