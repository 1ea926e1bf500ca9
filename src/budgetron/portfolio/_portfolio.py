"""The portfolio: many experts in one memory, as one hypothesis for all classes.

In a round, every active expert computes a score for each class from the raw or the standardised row, and
the combination makes one prediction from the scores (`_core.combination`). Then the label is seen, and the
experts and the combination learn. Experts start, end and grow by a schedule (`_schedule`). An expert's share
of the memory is a limit: its arrays grow as supports are added.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from budgetron._base.batches import canonical, signed_margin
from budgetron._core.combination import Combination
from budgetron._core.portfolio_round import PortfolioRound
from budgetron._util.blocks import row_blocks
from budgetron._util.checks import State
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.sparse import check_sparse
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Ints, Matrix, Row
from budgetron.portfolio._changes import CHUNK
from budgetron.portfolio._experts import FIRST_ORDER, LEAST_ROOM, LOGISTIC_FACTOR, WIDE, Plan
from budgetron.portfolio._parallel import RunExperts, expert_runner
from budgetron.portfolio._pool import TooLittleMemoryError
from budgetron.portfolio._schedule import CHANGED, ScheduledPool
from budgetron.portfolio._views import Views

__all__ = ["Portfolio"]

# Larger features could not be squared and summed: over a long stream, or over the features of a float32 row.
LARGEST_FEATURE = {"float32": 1e17, "float64": 1e75}
# Scores of logistic experts are log-odds. With these factors, tanh of the score is the difference of the
# probabilities.
FIRST_ORDER_FACTORS = np.array([[LOGISTIC_FACTOR if logistic else 1.0] for logistic, _ in FIRST_ORDER])
# The part of its covariance that the combiner that forgets keeps in each round, and the rates of fixed share.
COMBINER_KEEP, ETA, ALPHA = 0.9999, 0.1, 3e-4
# Variance of the combiners' weights of an expert that starts late. It is below the first variance, 1, because
# the weights of the other experts have small variances by then.
LATE_VARIANCE = 0.05
# The attribute that a model file stores under a shorter name.
STORED_AS = {"only_first": "only_first_wrong"}


class Portfolio:
    """A hypothesis made of experts; it implements `budgetron._base.protocol.JointHypothesis`.

    Parameters
    ----------
    d : int
        Number of features.
    dtype : dtype
        Of the rows, float32 or float64.
    memory : int
        The largest number of bytes that it may ever keep.
    outputs : int
        One for two classes, otherwise one for each class.
    generator : numpy.random.Generator
        Draws the rows of the reservoir.
    plan : Plan
        Which parts there are.
    """

    budget = 0

    def __init__(
        self,
        d: int,
        dtype: np.dtype[Any],
        memory: int,
        outputs: int,
        generator: np.random.Generator,
        plan: Plan | None = None,
    ) -> None:
        plan = Plan() if plan is None else plan
        self.pool = ScheduledPool(d, dtype, memory, outputs, generator, plan)
        self.combination = new_combination(len(self.pool.experts), outputs, plan)
        self.pool.overhead = self._overhead(d)
        self.rounds = self.mistakes = 0
        self._opened: Matrix | None = None
        self._single: PortfolioRound | None = None  # made for single rounds; None after experts have changed
        if self.nbytes > memory:
            raise TooLittleMemoryError(self.nbytes, d)

    def _overhead(self, d: int) -> int:
        """Bytes of the combination, and those that single rounds of rows with d features need."""
        rows = (5 * d + 1) * self.dtype.itemsize if d <= WIDE else 0
        return self.combination.nbytes + rows + 16 * self.combination.n_experts * self.n_outputs

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_single": None}

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
    def n_outputs(self) -> int:
        """One for two classes, otherwise one for each class."""
        return self.pool.outputs

    @property
    def memory(self) -> int:
        """The largest number of bytes that it may keep."""
        return self.pool.memory

    @property
    def ledger(self) -> tuple[str, ...]:
        """Names of the columns that `learn` fills in a ledger; there is one for each combiner and expert."""
        voters = self.combination.n_combiners + self.combination.n_experts
        return ("loss", "weight", *["expert_losses"] * voters)

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
        sane = square < 1e30 and self.pool.first_order_experts.largest_weight < 1e30
        return sane and all(expert.is_safe(square) for expert in self.pool.experts)

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
        threads: int = 1,
    ) -> None:
        """Play one round per row of X, in order; experts may learn in several threads."""
        start = 0
        with expert_runner(threads if X.shape[0] > 1 else 1) as run:
            for stop in self.pool.block_ends(X.shape[0]):
                block = slice(start, stop)
                weights = None if importances is None else importances[block]
                rows = self._check_size(X[block])
                record = None if ledger is None else ledger[block]
                block_margins, block_sizes = self._learn_block(rows, y[block], weights, record, run)
                if margins is not None:
                    margins[block] = block_margins[:, 0] if margins.ndim == 1 else block_margins
                if sizes is not None:
                    sizes[block] = block_sizes
                    sizes[stop - 1] = self.n_supports  # after experts have started or ended
                start = stop

    def _learn_block(
        self,
        X: Matrix,
        labels: Floats,
        importances: Floats | None,
        ledger: Floats | None,
        run: RunExperts,
    ) -> tuple[Floats, Ints]:
        """Play the rounds of a block; return the margins, and the supports after each round."""
        pool, n, outputs = self.pool, X.shape[0], self.n_outputs
        self._single = None
        views = Views(X, None if pool.scaler is None else pool.scaler.advance(X))
        scores, sizes = np.zeros((n, len(pool.experts), outputs)), np.zeros(n, np.int64)
        supports = np.zeros((len(pool.experts), n), np.int64)
        first = np.empty((n, len(FIRST_ORDER), outputs))
        pool.first_order_experts.learn(views.with_constant(), labels, first, importances)
        scores[:, : len(FIRST_ORDER)] = FIRST_ORDER_FACTORS * first

        def learn(i: int) -> None:
            expert, own = pool.experts[i], np.empty((n, outputs))
            expert.learn(views, labels, own, supports[i], importances)
            scores[:, i] = expert.score_factor * own

        run(learn, pool.with_hypothesis())
        for i, expert in enumerate(pool.experts):
            if expert.design.has_kernel:
                sizes += supports[i]
        active, margins = self._active(), np.empty((n, outputs))
        self.combination.learn(scores, active, labels, margins, importances, ledger)
        wrong = wrong_votes(scores, labels) & active
        right = ~wrong & active
        if importances is not None:  # rows of weight 0 decide nothing
            wrong, right = wrong[importances > 0.0], right[importances > 0.0]
        counts = wrong.sum(axis=0)
        for expert, mistakes in zip(pool.experts, counts.tolist(), strict=True):
            if expert.active:
                expert.count(n, mistakes)
        pool.only_first_wrong += (wrong.T.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
        self.mistakes += int(np.count_nonzero(signed(margins, labels) <= 0.0))
        self.rounds += n
        pool.keep_rows(X, labels, importances)
        self._run_schedule(counts)
        return margins, sizes

    def _run_schedule(self, wrong: Ints) -> None:
        """Let experts start, end and grow if it is time, after rounds with this many mistakes of each."""
        for place, target in self.pool.run_schedule(wrong):
            if target >= 0:
                self.combination.transfer_weight(place, target)
            else:  # after a change, what the combiners know about the other experts is outdated
                self.combination.reset(place, 1.0 if target == CHANGED else LATE_VARIANCE)

    def _active(self) -> NDArray[np.bool_]:
        return np.array([expert.active for expert in self.pool.experts])

    def _check_size(self, X: Matrix) -> Matrix:
        """Refuse features that are too large; return the rows as an array, unless rows are wide."""
        limit = LARGEST_FEATURE[self.dtype.name]
        if float(np.abs(X.data if issparse(X) else X).max(initial=0.0)) > limit:
            raise ValueError(
                f"absolute values of features must be below {limit:g}, so that squares can be summed; "
                "scale them"
            )
        if self.pool.scaler is None:
            return X
        return np.ascontiguousarray(X.toarray() if issparse(X) else X)

    def play(self, x: Row, y: float, importance: float = 1.0) -> float | Floats:
        """Play one round; return the margins before the label was seen. An error changes nothing."""
        row, margins = self._check_row(x), np.empty((1, self.n_outputs))
        before = None if self._is_safe_row(row) else copy.deepcopy(self)
        try:
            self.learn(row, np.array([y]), margins, importances=_weight(importance))
        except BaseException:
            if before is not None:
                self.restore_from(before)
            raise
        return self._of_row(margins)

    def play_single(self, x: Row, y: float, importance: float, sigmoid: Floats) -> float | Floats | None:
        """Play one round in compiled code, and let the sigmoid learn from the margins; return the margins.

        Return None, and change nothing, if the round must be played by `play`: the row is sparse or unusual,
        or one of the first.
        """
        row = x if type(x) is np.ndarray else None
        if row is None or row.dtype != self.dtype or not row.flags.c_contiguous:
            given = None if issparse(x) else np.asarray(x)
            if given is None or given.shape != (self.n_features,) or given.dtype.kind not in "fiub":
                return None
            with np.errstate(over="ignore"):  # what becomes infinite is refused
                row = np.ascontiguousarray(given, self.dtype)
        if self._single is None:
            if not PortfolioRound.is_possible(self):
                return None
            self._single = PortfolioRound(self, CHUNK, LEAST_ROOM, FIRST_ORDER_FACTORS)
        if self._single.is_ordinary():
            return self._single.play(row, y, importance, sigmoid)
        with defer_interrupts(), one_thread():
            margins = self._single.play(row, y, importance, sigmoid)
            if margins is not None:
                self._run_schedule(np.zeros(len(self.pool.experts), np.int64))  # mistakes were counted
                self._single = None
        return margins

    def open_round(self, x: Row) -> float | Floats:
        """Play the first half of a round: check the row and return the margins."""
        row = self._check_row(x)
        margins = self._of_row(np.reshape(self.decide(row, next_row=True), (1, -1)))
        self._opened = row
        return margins

    def close_round(self, y: float, importance: float = 1.0) -> None:
        """Play the second half of the round that was opened: learn from the label."""
        assert self._opened is not None
        self.learn(self._opened, np.array([y]), importances=_weight(importance))
        self._opened = None

    def _of_row(self, margins: Floats) -> float | Floats:
        return float(margins[0, 0]) if self.n_outputs == 1 else margins[0]

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
        """Return the margin of each row, or those of all classes; with `next_row`, each as the next row."""
        pool, margins, active = self.pool, np.empty((X.shape[0], self.n_outputs)), self._active()
        for block in row_blocks(X.shape[0], pool.block_rows()):
            rows = self._check_size(X[block])
            views = Views(rows, None if pool.scaler is None else pool.scaler.apply(rows))
            scores = np.zeros((rows.shape[0], len(active), self.n_outputs))
            first = np.empty((rows.shape[0], len(FIRST_ORDER), self.n_outputs))
            pool.first_order_experts.decide(views.with_constant(), first)
            scores[:, : len(FIRST_ORDER)] = FIRST_ORDER_FACTORS * first
            for i, expert in enumerate(pool.experts):
                if expert.learner is not None:
                    own = expert.scores_for(views)
                    scores[:, i] = expert.score_factor * own.reshape(rows.shape[0], -1)
            self.combination.decide(scores, active, margins[block], next_row)
        return margins[:, 0] if self.n_outputs == 1 else margins

    # ------------------------------------------------------------------ state and changes

    def state(self) -> State:
        """Return all that the portfolio must remember: numbers, arrays, and tables of these."""
        pool = self.pool
        scaler = pool.scaler
        names = ["seen", "memory", "outputs", "reservoir", "first_labels", "medians", "window"]
        names += ["window_labels", "only_first", "watched", "chunk_errors", "alarm_at", "scales"]
        names += ["first_weights", "window_weights"]
        return {name: getattr(pool, STORED_AS.get(name, name)) for name in names} | {
            "rounds": self.rounds,
            "mistakes": self.mistakes,
            "bits": pool.generator.bit_generator.state,
            "scaler": None if scaler is None else {"mean": scaler.mean, "spread": scaler.spread},
            "chunks": pool.detector.counts,
            "trials": np.array(pool.trials, np.int64).reshape(-1, 3),
            "bank": in_rows(pool.first_order_experts.weights),
            "experts": [expert.state() for expert in pool.experts],
            "combination": {name: in_rows(array) for name, array in self.combination.arrays().items()},
        }

    def restore_from(self, saved: Portfolio, /) -> None:
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self.__dict__.clear()
        self.__dict__.update(saved.__dict__)

    def set_round_count(self, rounds: int) -> None:
        """Continue as if this many rounds had been played without an update."""
        self.rounds = rounds

    def mirrored(self, generator: np.random.Generator) -> None:
        """Return None: a portfolio has all classes, and no part of it is copied for a new class."""

    def add_output(self, place: int) -> None:
        """Add a class at this place; the one output of two classes first becomes one for each."""
        self.pool.add_output(place)
        self.combination.add_output(place)
        self.pool.overhead, self._single = self._overhead(self.n_features), None
        self.pool.shrink(self.pool.memory)

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        self.pool.overhead, self._single = self._overhead(d), None
        self.pool.add_features(d)

    def truncate(self, budget: int) -> None:
        """Refuse: the experts of a portfolio are limited by its memory; see `shrink`."""
        raise ValueError("a portfolio cannot be restricted to fewer supports; use less memory")

    def shrink(self, memory: int) -> None:
        """Use less memory from now on."""
        self._single = None
        self.pool.shrink(memory)


def new_combination(n_experts: int, outputs: int, plan: Plan) -> Combination:
    """Return a combination with the parts of a plan."""
    keeps = (1.0, COMBINER_KEEP) if plan.forgetting else (1.0,)
    return Combination(n_experts, outputs, keeps, ETA, ALPHA if plan.sharing else 0.0, plan.recency)


def in_rows(array: Floats) -> Floats:
    """Return an array as a matrix, because files store no more than two dimensions."""
    return array.reshape(-1, array.shape[-1]) if array.ndim > 2 else array


def wrong_votes(scores: Floats, labels: Floats) -> NDArray[np.bool_]:
    """Return whether each expert is wrong about each row; scores are of shape (n, n_experts, n_outputs)."""
    if scores.shape[2] == 1:
        wrong: NDArray[np.bool_] = (scores[:, :, 0] > 0.0) != (labels > 0.0)[:, None]
        return wrong
    return np.asarray(scores.argmax(axis=2) != labels[:, None])


def signed(margins: Floats, labels: Floats) -> Floats:
    """Return the margin of each row's class, relative to the others."""
    if margins.shape[1] == 1:
        return margins[:, 0] * labels
    return signed_margin(margins, labels.astype(np.intp), multiclass=True)


def _weight(importance: float) -> Floats | None:
    return None if importance == 1.0 else np.array([importance])
