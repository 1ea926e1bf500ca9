"""The portfolio: many experts in one memory, as one hypothesis over rows labelled -1 or +1.

In a round, the row is taken raw and standardised. Every active expert gives a margin, and the combiner makes
one margin of them (`_combiner`). Then the label is seen, and all learn. Experts start, end and grow by a
schedule (`_pool`). An expert's share of the memory is a limit: its arrays grow as supports are added.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse

from budgetron._base.batches import canonical
from budgetron._util.blocks import row_blocks
from budgetron._util.checks import State
from budgetron._util.sparse import check_sparse
from budgetron._util.types import Floats, Ints, Matrix, Row
from budgetron.portfolio._combiner import Combiner
from budgetron.portfolio._experts import Plan, compiled_state
from budgetron.portfolio._pool import ExpertPool, TooLittleMemoryError, active_experts
from budgetron.portfolio._views import Views

__all__ = ["Portfolio"]

# Larger features could not be squared and summed: over a long stream, or over the features of a float32 row.
LARGEST = {"float32": 1e17, "float64": 1e75}


class Portfolio:
    """A hypothesis made of experts; it implements `budgetron._base.protocol.Hypothesis`.

    Parameters
    ----------
    d : int
        Number of features.
    dtype : dtype
        Of the rows, float32 or float64.
    memory : int
        The largest number of bytes that it may ever keep.
    generator : numpy.random.Generator
        Draws the rows of the reservoir.
    plan : Plan
        Which parts there are.
    """

    ledger: tuple[str, ...] = ()
    budget = 0

    def __init__(
        self,
        d: int,
        dtype: np.dtype[Any],
        memory: int,
        generator: np.random.Generator,
        plan: Plan | None = None,
    ) -> None:
        plan = Plan() if plan is None else plan
        self.pool = ExpertPool(d, dtype, memory, generator, plan)
        self.combiner = Combiner(len(self.pool.experts), plan)
        self.pool.overhead = self.combiner.nbytes
        self.sign = 1.0  # -1 for one that was trained with the opposite labels
        self.rounds = self.mistakes = 0  # the rounds include those before a new class was first seen
        self._opened: Matrix | None = None
        if self.nbytes > memory:
            raise TooLittleMemoryError(self.nbytes, d)

    # ------------------------------------------------------------------ properties

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the rows."""
        return self.pool.row.dtype

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""
        return self.pool.d

    @property
    def memory(self) -> int:
        """The largest number of bytes that it may keep."""
        return self.pool.memory

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that outlive a call."""
        return self.pool.nbytes

    @property
    def n_supports(self) -> int:
        """Supports of all experts."""
        return sum(expert.n_supports for expert in self.pool.experts)

    def is_safe(self, square: float) -> bool:
        """Return whether rows of at most this squared norm cannot cause an overflow in `learn`."""
        return square < 1e30 and all(expert.is_safe(square) for expert in self.pool.experts)

    def may_fail(self) -> bool:
        """Return whether closing the round that was opened might overflow."""
        assert self._opened is not None
        return not self._is_safe_row(self._opened)

    def _is_safe_row(self, row: Matrix) -> bool:
        values = row.data if issparse(row) else row
        with np.errstate(over="ignore"):
            return self.is_safe(float(np.square(values, dtype=np.float64).sum()))

    # ------------------------------------------------------------------ rounds

    def learn(
        self,
        X: Matrix,
        y: Floats,
        margins: Floats | None = None,
        sizes: Ints | None = None,
        ledger: Floats | None = None,
        *,
        importances: Floats | None = None,
    ) -> None:
        """Play one round per row of X, in order.

        A portfolio has no ledger, and the estimator refuses weights of rows: both arguments are None.
        """
        start = 0
        for stop in self.pool.block_ends(X.shape[0]):
            block = slice(start, stop)
            block_margins, block_sizes = self._learn_block(self._check_size(X[block]), self.sign * y[block])
            if margins is not None:
                margins[block] = self.sign * block_margins
            if sizes is not None:
                sizes[block] = block_sizes
                sizes[stop - 1] = self.n_supports  # after experts have started or ended
            start = stop

    def _learn_block(self, X: Matrix, y: Floats) -> tuple[Floats, Ints]:
        """Play the rounds of a block; return the margins, and the supports after each round."""
        pool = self.pool
        views = Views(X, None if pool.scaler is None else pool.scaler.advance(X))
        distances, active = pool.distances(views), active_experts(pool.experts)
        expert_margins, sizes = np.zeros((X.shape[0], len(pool.experts))), np.zeros(X.shape[0], np.int64)
        for i in np.flatnonzero(active).tolist():
            expert = pool.experts[i]
            expert_margins[:, i], supports = expert.learn_rows(expert.rows(views), y, distances.get(i))
            sizes += supports
        margins, wrong = self.combiner.learn(expert_margins, active, y)
        for i in np.flatnonzero(active).tolist():
            pool.experts[i].count(len(y), int(wrong[i]))
        self.mistakes += int(np.count_nonzero(y * margins <= 0.0))
        self.rounds += len(y)
        pool.sample(X, y)
        for source, target in pool.run_schedule():
            self.combiner.transfer_weight(source, target)
        return margins, sizes

    def _check_size(self, X: Matrix) -> Matrix:
        """Refuse features that are too large; return the rows as an array, unless rows are wide."""
        limit = LARGEST[self.dtype.name]
        if float(np.abs(X.data if issparse(X) else X).max(initial=0.0)) > limit:
            raise ValueError(
                f"absolute values of features must be below {limit:g}, so that squares can be summed; "
                "scale them"
            )
        if self.pool.scaler is None:
            return X
        return np.ascontiguousarray(X.toarray() if issparse(X) else X)

    def play(self, x: Row, y: float, importance: float = 1.0) -> float:
        """Play one round; return the margin before the label was seen. An error changes nothing."""
        row, margin = self._check_row(x), np.empty(1)
        before = None if self._is_safe_row(row) else copy.deepcopy(self)
        try:
            self.learn(row, np.array([y]), margin)
        except BaseException:
            if before is not None:
                self.restore_from(before)
            raise
        return float(margin[0])

    def open_round(self, x: Row) -> float:
        """Play the first half of a round: check the row and return the margin."""
        row = self._check_row(x)
        margin = float(self.decide(row, next_row=True)[0])
        self._opened = row
        return margin

    def close_round(self, y: float, importance: float = 1.0) -> None:
        """Play the second half of the round that was opened: learn from the label."""
        assert self._opened is not None
        self.learn(self._opened, np.array([y]))
        self._opened = None

    def _check_row(self, x: Row) -> Matrix:
        """Return one row as a matrix of one row, after checking it."""
        given: Any = x if issparse(x) else np.asarray(x)
        d = self.n_features
        if given.shape[-1:] != (d,) or given.shape[:-1] not in ((), (1,)):
            raise ValueError(f"x must be one row of {d} features; got an array of shape {given.shape}")
        if given.dtype.kind not in "fiub":
            raise ValueError(f"x must hold numbers; got an array of dtype {given.dtype}")
        row: Matrix
        with np.errstate(
            over="ignore"
        ):  # a value too large for the type becomes infinite, and is refused below
            if issparse(given):
                check_sparse(given)
                row = given.reshape((1, -1)).tocsr().astype(self.dtype)
                row = canonical(row, check_sparse(row))
                values, features = row.data, row.indices
            else:
                row = given.astype(self.dtype).reshape(1, -1)
                values, features = row[0], np.arange(d)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            raise ValueError(f"x must be finite; feature {features[wrong[0]]} is {values[wrong[0]]}")
        return row

    def decide(self, X: Matrix, *, next_row: bool = False) -> Floats:
        """Return the margin of each row; with `next_row`, each as the next row of the stream."""
        pool, margins = self.pool, np.empty(X.shape[0])
        active = active_experts(pool.experts)
        for block in row_blocks(X.shape[0], pool.block_rows()):
            rows = self._check_size(X[block])
            views = Views(rows, None if pool.scaler is None else pool.scaler.apply(rows))
            distances, expert_margins = pool.distances(views), np.zeros((rows.shape[0], len(active)))
            for i in np.flatnonzero(active).tolist():
                expert = pool.experts[i]
                expert_margins[:, i] = expert.margins_for(expert.rows(views), distances.get(i))
            margins[block] = self.sign * self.combiner.decide(expert_margins, active, next_row=next_row)
        return margins

    # ------------------------------------------------------------------ state and changes

    def state(self) -> State:
        """Return all that the portfolio must remember: numbers, arrays, and tables of these."""
        pool = self.pool
        scaler = pool.scaler
        return {
            "rounds": self.rounds,
            "seen": pool.seen,
            "mistakes": self.mistakes,
            "memory": pool.memory,
            "sign": self.sign,
            "labels": self.combiner.recent_labels,
            "reservoir": pool.reservoir,
            "first_labels": pool.first_labels,
            "medians": pool.medians,
            "bits": pool.generator.bit_generator.state,
            "scaler": None if scaler is None else {"mean": scaler.mean, "spread": scaler.spread},
            "experts": [expert.state() for expert in pool.experts],
            "combiner": compiled_state(self.combiner.rule),
            **self.combiner.weights.totals(),
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
        mirrored = copy.deepcopy(self)
        mirrored.sign, mirrored.pool.generator = -self.sign, generator
        return mirrored

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        self.pool.add_features(d)

    def truncate(self, budget: int) -> None:
        """Refuse: the experts of a portfolio are limited by its memory; see `shrink`."""
        raise ValueError("a portfolio cannot be restricted to fewer supports; use less memory")

    def shrink(self, memory: int) -> None:
        """Use less memory from now on."""
        self.pool.shrink(memory)
