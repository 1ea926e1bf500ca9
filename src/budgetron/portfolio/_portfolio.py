"""Many experts in one memory, and one answer: a hypothesis over rows labelled -1 or +1.

A round goes like this. The row is seen as it is, and standardised. Every expert gives a margin. A
second-order learner, the combiner, has learned whom to believe from their margins and the labels of late.
Exponential weights over the combiner and all experts make the prediction, so that over any stream it loses
little against the best of them. Then the label is seen, and all learn.

Experts over kernels begin after the first rows have shown how far rows are apart, at several widths of the
kernel, and with equal shares of the memory. After STAGE rounds, and twice as many, the weaker half of the
second-order ones ends, and after LAST rounds all but one. Those that are left grow into the memory. A share
is what an expert may take: arrays are made as supports come.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._core.distances import shared
from budgetron._util.checks import State
from budgetron.linear import AROW
from budgetron.portfolio._experts import (
    MOST_RECENT,
    WIDE,
    Expert,
    Plan,
    Scaler,
    Views,
    compiled_state,
    experts_for,
    most_supports,
)
from budgetron.portfolio._weights import VoteWeights

__all__ = ["Portfolio", "TooLittleMemoryError"]

# Rows of the reservoir, at most and at least. When it is full, experts over kernels begin.
RESERVOIR, LEAST = 64, 16
# Memory moves after so many rounds, twice as many, and so on; which expert keeps it is known after LAST.
STAGE, LAST = 250, 1000
# The labels of late are averages at these rates.
RATES = np.array([1.0, 0.1])
# By how much the median distance may change before an expert begins anew.
MOVED = 4.0
# Features above this could not be squared and summed over a long stream.
LARGEST = 1e100


class TooLittleMemoryError(ValueError):
    """A portfolio does not fit in its memory: so many bytes are needed for rows of so many features."""

    def __init__(self, needed: int, d: int) -> None:
        super().__init__(f"memory must be at least {needed:,} bytes for rows of {d:,} features")
        self.needed, self.d = needed, d


class Portfolio:
    """A hypothesis that needs no choice.

    Parameters
    ----------
    d : int
        Number of features.
    dtype : dtype
        Of the rows, float32 or float64.
    memory : int
        The most bytes that it may ever keep.
    generator : numpy.random.Generator
        Draws the rows of the reservoir.
    plan : Plan
        Which parts there are.
    """

    ledger: tuple[str, ...] = ()
    budget = 0

    def __init__(
        self, d: int, dtype: Any, memory: int, generator: np.random.Generator, plan: Plan | None = None
    ) -> None:
        self.d, self.memory, self.generator, self.plan = (
            d,
            memory,
            generator,
            Plan() if plan is None else plan,
        )
        self.row = np.zeros(d, dtype)
        self.sign = 1.0  # -1 for one that was made for the opposite labels, and serves these
        self.rounds = self.mistakes = 0
        self.seen = 0  # rounds that were learned; a class that came late has others too
        self.labels = np.zeros(len(RATES))
        wide = d > WIDE
        self.scaler = None if wide else Scaler(np.zeros(d), np.zeros(d))
        room = 0 if wide else self._reservoir_for(d)
        self.reservoir: NDArray[Any] = np.zeros((room, d), dtype)
        self.first_labels = np.zeros(room)
        self.medians = np.zeros(2)  # of squared distances, as rows are and standardised
        self.experts = experts_for(d, self.row.dtype, memory, self.plan)
        self.combiner = AROW().new_rule(len(self.experts) + len(RATES) + 1, np.dtype(np.float64))
        self.weights = VoteWeights.for_experts(len(self.experts) + 1)
        self._opened: tuple[Any, float] | None = None
        if self.nbytes > memory:
            raise TooLittleMemoryError(self.nbytes, d)

    # ------------------------------------------------------------------ what it is

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        dtype: np.dtype[Any] = self.row.dtype
        return dtype

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""
        return self.d

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that outlive a call."""
        arrays = [self.row, self.reservoir, self.first_labels, self.labels, self.medians]
        if self.scaler is not None:
            arrays += [self.scaler.mean, self.scaler.spread]
        return (
            sum(array.nbytes for array in arrays)
            + self.weights.nbytes
            + int(self.combiner.nbytes)
            + sum(expert.nbytes for expert in self.experts)
        )

    @property
    def promised(self) -> int:
        """Bytes that all arrays may come to take before memory moves again."""
        return self.nbytes + sum(expert.promised(self.row) - expert.nbytes for expert in self.experts)

    @property
    def n_supports(self) -> int:
        """Supports of all experts."""
        return sum(expert.supports for expert in self.experts)

    def is_safe(self, square: float) -> bool:
        """Whether rows of at most this squared norm cannot make a margin or a step overflow."""
        # Steps of linear experts make margins right: they are no longer than what rows and weights are.
        return square < 1e30 and all(
            expert.learner.is_safe(square) if expert.kernel else expert.learner.norm2 < 1e60
            for expert in self.experts
            if expert.learner is not None
        )

    def may_fail(self) -> bool:
        """Whether the second half of the round that was opened might overflow."""
        assert self._opened is not None
        return not self._suits(self._opened[0])

    def _suits(self, row: Any) -> bool:
        values = row.data if issparse(row) else row
        with np.errstate(over="ignore"):
            return self.is_safe(float(np.square(values, dtype=np.float64).sum()))

    # ------------------------------------------------------------------ learning

    def learn(
        self,
        X: Any,
        y: NDArray[np.float64],
        margins: NDArray[np.float64] | None = None,
        sizes: NDArray[np.int64] | None = None,
        ledger: Any = None,
        importances: Any = None,
    ) -> None:
        """Play one round per row of X, in order."""
        start = 0
        for stop in self._cuts(X.shape[0]):
            kept = np.zeros(stop - start, np.int64)
            made = self._rounds(self._rows(X[start:stop]), self.sign * y[start:stop], kept)
            if margins is not None:
                margins[start:stop] = self.sign * made
            if sizes is not None:
                sizes[start:stop] = kept
                sizes[stop - 1] = self.n_supports  # when some began or ended
            start = stop

    def _cuts(self, n: int) -> Iterator[int]:
        """Where a batch is cut: where something begins, ends or needs room, and so that blocks are small."""
        done, before = 0, self.seen
        while done < n:
            at = before + done
            event = len(self.reservoir) if at < len(self.reservoir) else STAGE
            while event <= at:
                event *= 2
            room = (expert.room for expert in self.experts if expert.second_order)
            done = min(n, done + max(1, min(self._longest(), event - at, *room)))
            yield done

    def _longest(self) -> int:
        return int(np.clip(self.memory // 32 // (8 * self.d), 16, 256))

    def _rows(self, X: Any) -> Any:
        """Rows as the views need them: an array, or as they are where rows are wide."""
        if float(np.abs(X.data if issparse(X) else X).max(initial=0.0)) > LARGEST:
            raise ValueError(
                f"features must be below {LARGEST:g}, so that their squares can be summed; scale them"
            )
        if self.scaler is None:
            return X
        return np.ascontiguousarray(X.toarray() if issparse(X) else X)

    def _rounds(self, X: Any, y: NDArray[np.float64], kept: NDArray[np.int64]) -> NDArray[np.float64]:
        """The margins of some rounds; `kept` gets the supports after each."""
        views = Views(X, None if self.scaler is None else self.scaler.advance(X))
        said, known = np.zeros((X.shape[0], len(self.experts))), self._distances(views)
        for i, expert in enumerate(self.experts):
            if expert.learner is not None:
                said[:, i] = teach(expert, views.of(expert), y, known.get(i), kept)
        combined = np.empty(len(y))
        self.combiner.learn(self._features(said, y), y, combined, None, None)
        votes, outcomes = self._votes(said, combined), y > 0.0
        shares = self.weights.play(votes, outcomes).predictions
        assert shares is not None
        margins = margins_of(shares, combined)
        wrong = np.count_nonzero(votes[:, 1:] != outcomes[:, None], axis=0)
        for expert, count in zip(self.experts, wrong.tolist(), strict=True):
            if expert.learner is not None:
                expert.mistakes, expert.late = expert.mistakes + count, expert.late + count
                expert.rounds += len(y)
        self.mistakes += int(np.count_nonzero(y * margins <= 0.0))
        self._sample(X, y)
        self.rounds += len(y)
        if self.scaler is not None:
            self._look()
        return margins

    def _distances(self, views: Views) -> dict[int, Any]:
        """By expert, the distances of rows from supports: computed once for all widths, where that pays."""
        known: dict[int, Any] = {}
        for alike in self.alike():
            learners = [self.experts[i].learner for i in alike]
            found = shared(
                views.of(self.experts[alike[0]]),
                [learner.supports for learner in learners],
                [self.seen - learner.rounds for learner in learners],
                self.memory / 8,
            )
            known |= {
                i: distances for i, distances in zip(alike, found, strict=True) if distances is not None
            }
        return known

    def alike(self) -> list[list[int]]:
        """Experts over kernels that see the same rows; the rows that they keep are known by their rounds."""
        there = [i for i, expert in enumerate(self.experts) if expert.kernel and expert.learner is not None]
        return [
            those
            for standardised in (False, True)
            if len(those := [i for i in there if self.experts[i].standardised == standardised]) > 1
        ]

    def _features(
        self, said: NDArray[np.float64], y: NDArray[np.float64] | None, next_one: bool = False
    ) -> NDArray[np.float64]:
        """What the combiner sees: margins within limits, the labels of late (0 where rows are any), and 1."""
        n, N = said.shape
        features = np.ones((n, N + len(RATES) + 1))
        np.tanh(said, out=features[:, :N])
        late = features[:, N : N + len(RATES)]
        if not self.plan.recency or (y is None and not next_one):
            late[:] = 0.0
        elif y is None:
            late[:] = self.labels
        else:
            for i, rate in enumerate(RATES.tolist()):
                label, told = float(self.labels[i]), []
                for sign in y.tolist():
                    told.append(label)
                    label += rate * (sign - label)
                late[:, i], self.labels[i] = told, label
        return features

    def _votes(self, said: NDArray[np.float64], combined: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the combiner and each expert predict, 0 or 1; who is not there says what the combiner says."""
        votes = np.empty((len(said), len(self.experts) + 1))
        votes[:, 0] = combined > 0.0 if self.plan.combiner else 0.0
        for i, expert in enumerate(self.experts):
            votes[:, i + 1] = votes[:, 0] if expert.learner is None else said[:, i] > 0.0
        return votes

    def play(self, x: Any, y: float, importance: float = 1.0) -> float:
        """One round on one row: the margin before y is seen; then learn."""
        row, margin = self._one(x), np.empty(1)
        before = None if self._suits(row) else copy.deepcopy(self)
        try:
            self.learn(row, np.array([y]), margin)
        except BaseException:
            if before is not None:
                self.restore_from(before)
            raise
        return float(margin[0])

    def open_round(self, x: Any) -> float:
        """The first half of a round: check the row and predict."""
        row = self._one(x)
        margin = float(self.decide(row, next_one=True)[0])
        self._opened = row, margin
        return margin

    def close_round(self, y: float, importance: float = 1.0) -> None:
        """The second half: the label is seen."""
        assert self._opened is not None
        self.learn(self._opened[0], np.array([y]))
        self._opened = None

    def _one(self, x: Any) -> Any:
        shape = np.shape(x) if not issparse(x) else x.shape
        if shape[-1:] != (self.d,) or shape[:-1] not in ((), (1,)):
            raise ValueError(f"x must be one row of {self.d} features; got an array of shape {shape}")
        if issparse(x):
            row: Any = x.reshape((1, -1)).tocsr().astype(self.row.dtype)
        else:
            row = np.asarray(x, self.row.dtype).reshape(1, -1).copy()
        values, places = (row.data, row.indices) if issparse(row) else (row[0], np.arange(self.d))
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise ValueError(f"x must be finite; feature {places[wrong[0]]} is {values[wrong[0]]}")
        return row

    # ------------------------------------------------------------------ prediction

    def decide(self, X: Any, next_one: bool = False) -> NDArray[np.float64]:
        """The margin for each row of X; for the next one of the stream, with the labels of late."""
        margins = np.empty(X.shape[0])
        for start in range(0, X.shape[0], self._longest()):
            rows = self._rows(X[start : start + self._longest()])
            views = Views(rows, None if self.scaler is None else self.scaler.apply(rows))
            said, known = np.zeros((rows.shape[0], len(self.experts))), self._distances(views)
            for i, expert in enumerate(self.experts):
                if expert.learner is not None:
                    said[:, i] = ask(expert, views.of(expert), known.get(i))
            combined = self.combiner.decide(self._features(said, None, next_one))
            shares = self._votes(said, combined) @ self.weights.weights_
            margins[start : start + rows.shape[0]] = self.sign * margins_of(shares, combined)
        return margins

    # ------------------------------------------------------------------ memory

    def _sample(self, X: Any, y: NDArray[np.float64]) -> None:
        """Let the reservoir be a sample of all rows so far."""
        room = len(self.reservoir)
        if room and self.seen < room:  # which is where batches are cut
            self.reservoir[self.seen : self.seen + len(y)] = X
            self.first_labels[self.seen : self.seen + len(y)] = y
        elif room:
            places = self.generator.random(len(y)) * (self.seen + 1 + np.arange(len(y)))
            for t in np.flatnonzero(places < room):
                self.reservoir[int(places[t])] = X[t]
        self.seen += len(y)

    def _look(self) -> None:
        """Let experts begin, end and grow, if it is time, and make room for what comes next."""
        stage = self.seen // STAGE if self.seen % STAGE == 0 else 0
        if self.seen == len(self.reservoir):
            self._begin()
        elif stage and stage & (stage - 1) == 0:
            self._move()
        for expert in self.experts:
            if expert.second_order and expert.learner is not None:
                expert.make_room()

    def _measure(self) -> NDArray[np.float64]:
        assert self.scaler is not None
        return np.array([median_distance(self.reservoir), median_distance(self.scaler.apply(self.reservoir))])

    def _begin(self) -> None:
        """Let the experts over kernels begin, and learn the rows so far."""
        assert self.scaler is not None
        self.medians = self._measure()
        kernels = [expert for expert in self.experts if expert.kernel]
        for expert in kernels:
            if not expert.set_width(self.medians[int(expert.standardised)], self.row.dtype):
                expert.end()
        recent = [expert for expert in kernels if not expert.second_order and not expert.ended]
        second = [expert for expert in kernels if expert.second_order and not expert.ended]
        labels, self.first_labels = self.first_labels, np.zeros(0)
        self._share(recent, (self.memory - self.nbytes) // 8, MOST_RECENT)
        # As many as can have a fair number of supports each, the most promising first
        while second and not self._share(second, self.memory - self.nbytes, self._most()):
            second.pop().end()
        if not second:  # all that is left is for those that need little
            self._share(recent, self.memory - self.nbytes, MOST_RECENT)
        views = Views(self.reservoir, self.scaler.apply(self.reservoir))
        for expert in self.experts:
            if expert.kernel and expert.learner is not None:
                teach(expert, views.of(expert), labels)

    def _share(self, experts: list[Expert], room: int, most: int) -> bool:
        """Let experts begin with equal shares of so much memory; whether all could, and if not none did."""
        if not experts:
            return True
        room += sum(expert.nbytes for expert in experts)
        begun = [expert.begin(self.row, room // len(experts), most) for expert in experts]
        if not all(begun):
            for expert in experts:
                expert.learner = None
        for expert in experts:
            expert.ended = expert.learner is None
        return all(begun)

    def _most(self) -> int:
        """How many supports an expert may have: no more than rounds until memory moves again."""
        most = most_supports(self.memory)
        return min(most, max(STAGE, 2 * self.seen)) if self.plan.moving else most

    def _move(self) -> None:
        """Let the weaker half of the second-order experts end, and the others grow into their memory."""
        active = [expert for expert in self.experts if expert.second_order and expert.learner is not None]
        # Of those that are as good as the best for all that is known, the ones that stand first
        best = min((expert.late for expert in active), default=0)
        active.sort(key=lambda expert: max(expert.late, best + best**0.5))
        kept = active[: max(1 if self.seen >= LAST else 2, len(active) // 2)] if self.plan.moving else active
        for expert in active[len(kept) :]:
            self._bequeath(expert, kept[0])
            expert.end()
        if kept == active:
            self._renew(active)
        if self.plan.moving and kept:
            share = (sum(expert.nbytes for expert in kept) + self.memory - self.nbytes) // len(kept)
            for expert in kept:
                expert.grow(self.row, share, self._most())
        for expert in self.experts:
            expert.late = 0

    def _bequeath(self, expert: Expert, heir: Expert) -> None:
        """Let the combiner believe another as it believed one that ends."""
        weights = self.combiner.weights.copy()
        i, j = self.experts.index(expert), self.experts.index(heir)
        weights[j], weights[i] = weights[j] + weights[i], 0.0
        self.combiner.set_weights(weights)

    def _renew(self, active: list[Expert]) -> None:
        """Let the weakest begin anew, if rows are now much farther apart, or nearer, than when it began."""
        best = min(expert.late for expert in self.experts if expert.learner is not None)
        weakest = max(active, key=lambda expert: expert.late, default=None)
        if weakest is None or weakest.late == best:
            return
        now, place = self._measure(), int(weakest.standardised)
        moved = not 1.0 / MOVED < now[place] / self.medians[place] < MOVED
        if moved and weakest.set_width(now[place], self.row.dtype):
            self.medians[place] = now[place]
            weakest.renew(self.row)

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        if self.scaler is None or d > WIDE:
            raise ValueError(
                f"rows may gain features up to {WIDE:,}, and there would be {d:,}; hash them "
                "(river.feature_extraction.FeatureHasher)"
            )
        for expert in self.experts:
            if expert.learner is not None:
                expert.learner.add_features(d if expert.kernel else d + 1)
        more = d - self.d
        self.scaler.mean = np.pad(self.scaler.mean, (0, more))
        self.scaler.spread = np.pad(self.scaler.spread, (0, more))
        self.row, self.d = np.pad(self.row, (0, more)), d
        # A smaller sample of wider rows; before the experts over kernels begin, with room for one more
        begun = self.seen >= len(self.reservoir)
        room = max(self._reservoir_for(d), 0 if begun else self.seen + 1)
        self.first_labels = self.first_labels[:room].copy()
        self.reservoir = np.pad(self.reservoir[:room], ((0, 0), (0, more)))
        self.shrink(self.memory)

    def _reservoir_for(self, d: int) -> int:
        return int(np.clip(self.memory // 16 // (d * self.row.itemsize), LEAST, RESERVOIR))

    def shrink(self, memory: int) -> None:
        """Keep to less memory from here on: second-order experts shrink, and others end until all fit."""
        self.memory = memory
        second = [expert for expert in self.experts if expert.second_order and expert.learner is not None]
        if second and self.promised > memory:
            room = memory - self.nbytes + sum(expert.nbytes for expert in second)
            for expert in second:
                expert.shrink(self.row, room // len(second))
        while self.promised > memory:
            here = [expert for expert in self.experts if expert.learner is not None]
            kernels = [expert for expert in here if expert.kernel]
            if kernels:
                max(kernels, key=lambda expert: expert.mistakes / max(expert.rounds, 1)).end()
            elif len(here) > 1:  # a full covariance of features that came late
                max(here, key=lambda expert: expert.nbytes).end()
            else:
                raise TooLittleMemoryError(self.promised, self.d)

    # ------------------------------------------------------------------ state

    def state(self) -> State:
        """Return all that the portfolio must remember: numbers, arrays, and tables of these."""
        scaler, weights = self.scaler, self.weights
        return {
            "rounds": self.rounds,
            "seen": self.seen,
            "mistakes": self.mistakes,
            "memory": self.memory,
            "sign": self.sign,
            "labels": self.labels,
            "reservoir": self.reservoir,
            "first_labels": self.first_labels,
            "medians": self.medians,
            "bits": self.generator.bit_generator.state,
            "scaler": None if scaler is None else {"mean": scaler.mean, "spread": scaler.spread},
            "experts": [expert.state() for expert in self.experts],
            "combiner": compiled_state(self.combiner),
            **weights.totals(),
        }

    def restore_from(self, saved: Portfolio, /) -> None:
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self.__dict__.clear()
        self.__dict__.update(saved.__dict__)

    def set_round_count(self, rounds: int) -> None:
        """Continue as if this many rounds had been played without an update."""
        self.rounds = rounds

    def mirrored(self, generator: np.random.Generator) -> Portfolio:
        """Return -f, the hypothesis that opposite labels would have made."""
        twin = copy.deepcopy(self)
        twin.sign, twin.generator = -self.sign, generator
        return twin


def teach(
    expert: Expert,
    X: Any,
    y: NDArray[np.float64],
    distances: Any = None,
    kept: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Play a round per row with one expert; the margins before the labels. `kept` grows by its supports."""
    margins, sizes = np.empty(X.shape[0]), np.zeros(X.shape[0], np.int64)
    if X.shape[0] == 1 and not issparse(X):
        margins[0] = expert.learner.play(X[0], y[0])
        sizes[0] = expert.supports
    else:
        known = {} if distances is None else {"distances": distances}
        expert.learner.learn(X, y, margins, sizes if expert.kernel else None, None, **known)
    if kept is not None:
        kept += sizes
    return margins


def ask(expert: Expert, X: Any, distances: Any = None) -> NDArray[np.float64]:
    """What one expert says of each row."""
    known = {} if distances is None else {"distances": distances}
    margins: NDArray[np.float64] = expert.learner.decide(X, **known)
    return margins


def margins_of(shares: NDArray[np.float64], combined: NDArray[np.float64]) -> NDArray[np.float64]:
    """The vote, from -1 to 1: the nearer to 0, the less the combiner is sure of it."""
    vote = np.where(shares > 0.5, 2.0 * shares - 1.0, np.minimum(2.0 * shares - 1.0, -1e-9))
    sure: NDArray[np.float64] = vote * (0.55 + 0.45 * np.sign(vote) * np.tanh(combined))
    return sure


def median_distance(X: NDArray[Any]) -> float:
    """The median squared distance between rows that differ; the number of features, if none do."""
    rows = X.astype(np.float64)
    # By differences: rows may be far from the origin and near each other
    apart = np.concatenate([np.square(rows[i + 1 :] - row).sum(axis=1) for i, row in enumerate(rows)])
    apart = apart[apart > 0.0]
    return float(np.median(apart)) if len(apart) else float(X.shape[1])
