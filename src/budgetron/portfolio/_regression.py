"""One hypothesis for numbers, made of experts: means, linear and kernel regressors, and their combination."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from budgetron._base.sizes import MemoryTooSmallError
from budgetron._core.rounds import Learner
from budgetron._core.squared_share import combined, current_leader, intervals, lead, next_intervals, share
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix, Row
from budgetron.portfolio._regression_experts import (
    COMBINERS,
    DESIGNS,
    LAGS,
    Hypothesis,
    bytes_of_linear,
    largest_budget,
    linear_rule,
    median_square,
    new_kernel,
)
from budgetron.portfolio._views import Scaler
from budgetron.relevance import bytes_needed, feature_scales

__all__ = ["RegressionPortfolio"]

# Rounds after which experts start, after which feature scales are learned, and after which all but the
# best kernel experts end: KERNELS_KEPT of those that forget, and KERNELS_KEPT of the others.
START_AT, SCALE_AT, DROP_AT, KERNELS_KEPT = 50, 1000, 2000, 2
# Rows of a block: the largest number whose predictions are computed together.
BLOCK = 256
# What the leader, the scale of the intervals, and the interval keep of earlier rounds.
LEADER_KEEP, SPREAD_KEEP, INTERVAL_RATE, SCORES_KEPT = 0.99, 0.98, 0.02, 500
# The part of the weights that fixed share distributes, and the first weight of all experts together.
SHARED_PART, EXPERT_PRIOR = 1e-4, 0.05
# Variance of the noise of the combiners, in parts of the variance of the targets.
COMBINER_NOISE = 1.0
# A full covariance of the features may take this part of the memory.
FULL_SHARE = 32
# The most rows of the window that feature scales are learned from take this part of the memory.
WINDOW_SHARE = 4
# Rows of a larger squared norm might overflow in the sums of the scaler.
LARGEST_SQUARE = 1e150
# Standardised targets are clipped to this: the first targets may have a tiny deviation.
LARGEST_STANDARDISED = 1e30
# The names of the arrays of a state.
ARRAYS = (
    *("unit", "means", "lags", "active", "recent", "totals", "gammas", "scales", "weights", "reach"),
    *("scores", "ordered", "tracker", "window", "window_targets"),
)
NO_WEIGHTS = np.zeros(0)


class RegressionPortfolio:
    """Experts on rows of d features, in one memory, and their combination.

    Parameters
    ----------
    d : int
    dtype : dtype
        Of the rows, float32 or float64.
    memory : int
        The largest number of bytes of all arrays.
    level : float
        The share of the targets that the intervals should contain.
    """

    mistakes, budget = 0, 1  # rows are always stored within the memory

    def __init__(self, d: int, dtype: np.dtype[Any], memory: int, level: float) -> None:
        self.d, self.dtype, self.memory, self.level = d, np.dtype(dtype), memory, level
        self.rounds = 0
        n = len(DESIGNS)
        self.scaler = Scaler.for_features(d)
        self.full = 4 * (d + 1 + LAGS) ** 2 <= memory // FULL_SHARE
        # Mean and deviation of the first targets: experts learn standardised ones
        self.unit = np.array([0.0, 1.0])
        self.means = np.zeros((n, 2))  # for experts that are means: sum and weight
        self.lags = np.zeros(LAGS)  # the last targets, the last one first
        self.active = np.zeros(n, np.uint8)
        self.active[[design.kind == "mean" for design in DESIGNS]] = 1
        self.recent, self.totals = np.zeros(n), np.zeros(n)
        self.hypotheses: list[Hypothesis | None] = [None] * n
        self.gammas = np.zeros(n)
        self.scales = np.ones(d)
        self.combiners = [
            linear_rule(n, np.dtype(np.float64), keep, True, COMBINER_NOISE) for keep in COMBINERS
        ]
        candidates = len(COMBINERS) + 1 + n
        self.prior = np.full(candidates, EXPERT_PRIOR / n)
        self.prior[: len(COMBINERS) + 1] = (1.0 - EXPERT_PRIOR) / (len(COMBINERS) + 1)
        self.weights = self.prior.copy()
        self.reach = np.array([np.inf, -np.inf, 0.0, 0.0])
        self.scores, self.ordered = np.zeros(SCORES_KEPT), np.zeros(SCORES_KEPT)
        self.tracker = np.array([1.0 - level, 0.0, 0.0, 0.0, np.inf, -np.inf])
        self.window: Floats = np.zeros((self._window_rows(), d), dtype)
        self.window_targets = np.zeros(len(self.window))
        self._check_memory()

    # ------------------------------------------------------------------ memory

    def _window_rows(self) -> int:
        """Return how many of the first rows are kept until feature scales are learned; at least START_AT."""
        per_row = self.d * self.dtype.itemsize + 8
        return int(min(SCALE_AT, max(START_AT, self.memory // WINDOW_SHARE // per_row)))

    def _kernel_bytes(self) -> int:
        """Return the bytes that are left for kernel experts."""
        linear = [design for design in DESIGNS if design.kind == "linear"]
        reserved = sum(bytes_of_linear(self._width(design.lags), self.dtype, self.full) for design in linear)
        return self.memory - reserved - self._own_bytes()

    def _check_memory(self) -> None:
        if self._kernel_bytes() < 0:
            needed = self.memory - self._kernel_bytes()
            raise MemoryTooSmallError(
                f"memory must be at least {needed:,} bytes for rows of {self.d:,} features", needed
            )

    def _own_bytes(self) -> int:
        arrays = [self.prior, *(getattr(self, name) for name in ARRAYS)]
        parts = self.scaler.nbytes + sum(combiner.nbytes for combiner in self.combiners)
        return parts + int(sum(array.nbytes for array in arrays))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that outlive a call."""
        experts = [one for one in self.hypotheses if one is not None]
        return self._own_bytes() + sum(expert.nbytes for expert in experts)

    @property
    def n_supports(self) -> int:
        """Number of stored rows: supports, and the window."""
        kernels = [one.n_supports for one in self.hypotheses if isinstance(one, Learner)]
        return sum(kernels) + min(self.rounds, len(self.window))

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""
        return self.d

    @property
    def ledger(self) -> tuple[str, ...]:
        """Names of the columns that `learn` fills in a ledger: the interval, and all losses."""
        return ("lower", "upper", *["expert_losses"] * len(self.prior))

    def names(self) -> list[str]:
        """Return the names of the combiners, of the leader, and of the experts."""
        combiners = [f"combiner that keeps {keep:g}" for keep in COMBINERS]
        return [*combiners, "leader", *(design.name for design in DESIGNS)]

    def summary(self) -> list[Any]:
        """Return name, state, weight and supports of the combiners, the leader and the experts."""
        first = len(COMBINERS) + 1
        entries = []
        for i, (name, weight) in enumerate(zip(self.names(), self.weights.tolist(), strict=True)):
            expert = self.hypotheses[i - first] if i >= first else None
            entries.append(
                {
                    "name": name,
                    "active": i < first or bool(self.active[i - first]),
                    "weight": weight,
                    "supports": expert.n_supports if isinstance(expert, Learner) else 0,
                }
            )
        return entries

    def _width(self, lags: bool) -> int:
        """Return the number of features of a linear expert: a constant, perhaps the last targets, and d."""
        return 1 + (LAGS if lags else 0) + self.d

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
        """Play one round per row, in order, and fill the arrays that are given."""
        n, start = X.shape[0], 0
        y = np.asarray(y, np.float64)
        while start < n:
            ends = [event - self.rounds for event in (START_AT, SCALE_AT, DROP_AT) if event > self.rounds]
            stop = start + min(n - start, BLOCK, *ends)
            rows = slice(start, stop)
            self._learn_block(
                dense(X[rows], self.dtype),
                y[rows],
                NO_WEIGHTS if importances is None else importances[rows],
                None if margins is None else margins[rows],
                None if ledger is None else ledger[rows],
            )
            if sizes is not None:
                sizes[rows] = self.n_supports
            start = stop
            self._handle_events()

    def _learn_block(
        self, X: Floats, y: Floats, importances: Floats, margins: Floats | None, ledger: Floats | None
    ) -> None:
        n = len(y)
        rows = self.scaler.advance(X)
        lagged = np.column_stack([np.append(self.lags[k::-1], y)[:n] for k in range(LAGS)])
        predictions = self._mean_predictions(y)
        targets = self._standardised(y)
        self._store_window(rows, y)
        for i, expert in enumerate(self.hypotheses):
            if expert is not None:
                out = np.empty(n)
                given = self._rows_for(i, rows, lagged)
                expert.learn(given, targets, out, importances=importances if len(importances) else None)
                predictions[:, i] = self.unit[0] + self.unit[1] * out
        self.lags = np.append(y[::-1], self.lags)[:LAGS].copy()
        self._combine(predictions, y, importances, margins, ledger)
        self.rounds += n

    def _combine(
        self,
        predictions: Floats,
        y: Floats,
        importances: Floats,
        margins: Floats | None,
        ledger: Floats | None,
    ) -> None:
        """Combine the experts' predictions, and learn their weights."""
        n, k = len(y), len(COMBINERS)
        leading, out = np.empty(n), np.empty(n)
        lead(predictions, self.active, y, LEADER_KEEP, self.recent, leading)
        self.totals += ((predictions - y[:, None]) ** 2).sum(axis=0)
        candidates = np.empty((n, len(self.prior)))
        # Combiners learn what to add to the leader: weights of the other experts' differences from it
        differences = (predictions - leading[:, None]) / self.unit[1]
        residuals = (y - leading) / self.unit[1]
        for j, combiner in enumerate(self.combiners):
            added = np.zeros(n)
            if self.rounds < START_AT:  # the unit of the targets is not known yet
                candidates[:, j] = leading
                continue
            combiner.learn(
                differences, residuals, added, importances=importances if len(importances) else None
            )
            candidates[:, j] = leading + self.unit[1] * added
        candidates[:, k], candidates[:, k + 1 :] = leading, predictions
        losses = np.empty((n if ledger is not None else 0, len(self.prior)))
        share(candidates, y, self.prior, SHARED_PART, importances, self.weights, self.reach, out, losses)
        bands = np.empty((n, 2))
        intervals(
            out, y, self.level, INTERVAL_RATE, SPREAD_KEEP, self.scores, self.ordered, self.tracker, bands
        )
        if margins is not None:
            margins[:] = out
        if ledger is not None:
            ledger[:, :2], ledger[:, 2:] = bands, losses

    def _mean_predictions(self, y: Floats) -> Floats:
        """Return the predictions of the means, and learn the targets; those of other experts are 0."""
        predictions = np.zeros((len(y), len(DESIGNS)))
        for i, design in enumerate(DESIGNS):
            if design.kind != "mean":
                continue
            total, weight = self.means[i]
            for t, target in enumerate(y.tolist()):
                predictions[t, i] = total / weight if weight else 0.0
                total, weight = design.forget * total + target, design.forget * weight + 1.0
            self.means[i] = total, weight
        return predictions

    def _store_window(self, rows: Floats, y: Floats) -> None:
        """Store the first rows, standardised, until feature scales are learned."""
        room = max(0, len(self.window) - self.rounds)
        n = min(room, len(y))
        self.window[self.rounds : self.rounds + n] = rows[:n]
        self.window_targets[self.rounds : self.rounds + n] = y[:n]

    def _standardised(self, y: Floats) -> Floats:
        """Return targets as experts learn them."""
        limit = LARGEST_STANDARDISED
        standardised: Floats = np.clip((y - self.unit[0]) / self.unit[1], -limit, limit)
        return standardised

    def _rows_for(self, i: int, rows: Floats, lagged: Floats) -> Floats:
        """Return standardised rows as expert i takes them."""
        design = DESIGNS[i]
        parts = [np.ones((len(rows), 1), self.dtype)] if design.kind == "linear" else []
        if design.lags:
            parts.append(np.asarray(self._standardised(lagged), self.dtype))
        parts.append(np.asarray(rows * self.scales, self.dtype) if design.scaled else rows)
        return np.ascontiguousarray(np.hstack(parts)) if len(parts) > 1 else parts[0]

    # ------------------------------------------------------------------ events

    def _handle_events(self) -> None:
        if self.rounds == START_AT:
            self._start_experts()
        if self.rounds == SCALE_AT:
            self._start_scaled()
        if self.rounds == DROP_AT:
            self._drop_kernels()

    def _start_experts(self) -> None:
        """Start the linear and the kernel experts, and let them learn the first rows."""
        y = self.window_targets[:START_AT]
        deviation = float(y.std())
        least = max(1e-9 * float(np.abs(y).max()), 1e-100)
        self.unit = np.array(
            [float(y.mean()), deviation if deviation > least else max(1.0, abs(float(y[0])))]
        )
        for i, design in enumerate(DESIGNS):
            if design.kind == "linear":
                self.hypotheses[i] = linear_rule(
                    self._width(design.lags), self.dtype, design.forget, self.full
                )
        self._start_kernels(scaled=False, rows=START_AT)
        self._replay([i for i, one in enumerate(self.hypotheses) if one is not None], START_AT)

    def _start_kernels(self, *, scaled: bool, rows: int) -> None:
        """Make kernel experts with equal shares of the memory; as many as fit."""
        median = median_square(np.asarray(self.window[: min(rows, 200)] * self.scales, np.float64))
        kernels = [i for i, design in enumerate(DESIGNS) if design.kind == "kernel"]
        room = self._kernel_bytes()
        budgets: dict[int, int] = {}
        for count in range(len(kernels), 0, -1):  # the first ones are the most useful
            budgets = {
                i: largest_budget(DESIGNS[i], self._kernel_width(i), self.dtype, self.full, room // count)
                for i in kernels[:count]
            }
            if min(budgets.values()) > 0:
                break
        for i, budget in budgets.items():
            design = DESIGNS[i]
            if budget and design.scaled == scaled:
                self.gammas[i] = design.width / (median + (2.0 * LAGS if design.lags else 0.0))
                self.hypotheses[i] = new_kernel(
                    design, budget, self.gammas[i], self._kernel_width(i), self.dtype, self.full
                )

    def _kernel_width(self, i: int) -> int:
        return self.d + (LAGS if DESIGNS[i].lags else 0)

    def _start_scaled(self) -> None:
        """Learn feature scales from the window, start the experts that use them, and release the window."""
        rows = min(len(self.window), SCALE_AT)
        n = next((m for m in (250, 125) if bytes_needed(rows, self.d, max_rows=m) <= self.memory), 0)
        if n and self.d > 1:
            gamma = DESIGNS[8].width / median_square(np.asarray(self.window[:200], np.float64))
            self.scales = feature_scales(
                self.window[:rows], self.window_targets[:rows], gamma, max_rows=n, noise=0.1, regression=True
            )
            self._start_kernels(scaled=True, rows=rows)
            new = [i for i, design in enumerate(DESIGNS) if design.scaled and self.hypotheses[i] is not None]
            self._replay(new, rows)
        self.window, self.window_targets = np.zeros((0, self.d), self.dtype), np.zeros(0)
        self.totals[:] = 0.0

    def _replay(self, places: list[int], rows: int) -> None:
        """Let new experts learn the rows of the window."""
        X, y = self.window[:rows], self.window_targets[:rows]
        lagged = np.column_stack([np.append(np.full(k + 1, y[0]), y)[:rows] for k in range(LAGS)])
        targets = self._standardised(y)
        leader = self.recent[self.active == 1].min() if self.active.any() else 0.0
        for i in places:
            expert = self.hypotheses[i]
            assert expert is not None
            expert.learn(self._rows_for(i, X, lagged), targets)
            self.active[i], self.recent[i] = 1, 1.0001 * leader

    def _drop_kernels(self) -> None:
        """End all but the best kernel experts, by their losses since the last ones started."""
        kernels = [i for i, one in enumerate(self.hypotheses) if isinstance(one, Learner)]
        for forgets in (False, True):  # those that forget may be needed only later, when the stream changes
            group = [i for i in kernels if (DESIGNS[i].forget < 1.0) == forgets]
            for i in sorted(group, key=lambda i: (self.totals[i], i))[KERNELS_KEPT:]:
                self.hypotheses[i], self.active[i] = None, 0

    # ------------------------------------------------------------------ predictions

    def _candidates(self, X: Matrix) -> Floats:
        """Return the predictions of all candidates for rows, each as the next one."""
        rows = self.scaler.apply(dense(X, self.dtype))
        lagged = np.tile(self.lags, (len(rows), 1))
        n, k = len(rows), len(COMBINERS)
        predictions = np.zeros((n, len(DESIGNS)))
        for i, design in enumerate(DESIGNS):
            expert = self.hypotheses[i]
            if design.kind == "mean":
                total, weight = self.means[i]
                predictions[:, i] = total / weight if weight else 0.0
            elif expert is not None:
                values = expert.decide(self._rows_for(i, rows, lagged))
                predictions[:, i] = self.unit[0] + self.unit[1] * values
        leading = predictions[:, current_leader(self.active, self.recent)].copy()
        predictions[:, self.active == 0] = leading[:, None]
        candidates = np.empty((n, len(self.prior)))
        differences = np.ascontiguousarray((predictions - leading[:, None]) / self.unit[1])
        for j, combiner in enumerate(self.combiners):
            candidates[:, j] = leading + self.unit[1] * combiner.decide(differences)
        candidates[:, k], candidates[:, k + 1 :] = leading, predictions
        return candidates

    def decide(self, X: Matrix) -> Floats:
        """Return the prediction for each row, as the next one."""
        out = np.empty(X.shape[0])
        for start in range(0, X.shape[0], BLOCK):
            rows = slice(start, start + BLOCK)
            combined(self._candidates(X[rows]), self.weights, self.reach, out[rows])
        return out

    def bands(self, predictions: Floats) -> Floats:
        """Return the interval of each prediction, as the next one."""
        out = np.empty((len(predictions), 2))
        next_intervals(predictions, self.ordered, self.tracker, out)
        return out

    # ------------------------------------------------------------------ single rounds, copies

    def play(self, x: Row, y: float, importance: float = 1.0) -> float:
        """Play one round; return the prediction before y was seen."""
        margins, row = np.empty(1), self._one_row(x)
        if not self.is_safe(float(np.einsum("ij,ij", row, row, dtype=np.float64))):
            raise ValueError("the squared norm of x is too large; scale the features")
        self.learn(row, np.array([y]), margins, importances=np.array([importance]))
        return float(margins[0])

    def open_round(self, x: Row) -> float:
        """Check the row and return its prediction."""
        return float(self.decide(self._one_row(x))[0])

    def _one_row(self, x: Row) -> Floats:
        row: Any = x.toarray() if issparse(x) else np.asarray(x)
        if row.size != self.d or row.ndim > 2:
            raise ValueError(f"x must have {self.d} features; got shape {row.shape}")
        if row.dtype.kind not in "fiub":
            raise ValueError(f"x must be numbers; got an array of {row.dtype}")
        found = np.ascontiguousarray(row.reshape(1, -1), self.dtype)
        if not np.isfinite(found).all():
            place = int(np.flatnonzero(~np.isfinite(found[0]))[0])
            raise ValueError(f"x must be finite; feature {place} is {found[0, place]}")
        return found

    def is_safe(self, square: float) -> bool:
        """Return whether rows of at most this squared norm cannot cause an overflow in `learn`."""
        # Standardised rows do not exceed the root of the number of rounds, and targets are limited.
        return square < LARGEST_SQUARE

    def may_fail(self) -> bool:
        """Return False: rows that are accepted are standardised, and targets are limited."""
        return False

    def restore_from(self, copy: Self, /) -> None:
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""
        self.__dict__.clear()
        self.__dict__.update(copy.__dict__)

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        more = d - self.d
        self.scaler.add_features(more)
        self.scales = np.append(self.scales, np.ones(more))
        self.window = np.pad(self.window, ((0, 0), (0, more)))
        self.d = d
        for i, expert in enumerate(self.hypotheses):
            if expert is not None:
                linear = DESIGNS[i].kind == "linear"
                expert.add_features(self._width(DESIGNS[i].lags) if linear else self._kernel_width(i))
        self._fit_in_memory()

    def _fit_in_memory(self) -> None:
        """Shorten the window and truncate kernel experts until all arrays fit in the memory."""
        if self.nbytes > self.memory and self.rounds < SCALE_AT:
            rows = max(START_AT, self._window_rows())
            self.window, self.window_targets = self.window[:rows].copy(), self.window_targets[:rows].copy()
        kernels = [one for one in self.hypotheses if isinstance(one, Learner)]
        while self.nbytes > self.memory and any(one.budget > 1 for one in kernels):
            largest = max(kernels, key=lambda one: one.nbytes)
            largest.truncate(max(1, largest.budget * 3 // 4))
        if self.nbytes > self.memory:
            raise MemoryTooSmallError(
                f"memory must be at least {self.nbytes:,} bytes for rows of {self.d:,} features", self.nbytes
            )

    def state(self) -> State:
        """Return all that the portfolio must remember: numbers, arrays, and tables of these."""
        return {name: getattr(self, name) for name in ARRAYS} | {
            "rounds": self.rounds,
            "full": bool(self.full),
            "memory": self.memory,
            "scaler": {"mean": self.scaler.mean, "spread": self.scaler.spread, "count": self.scaler.count},
            "budgets": [one.budget if isinstance(one, Learner) else 0 for one in self.hypotheses],
            "hypotheses": [None if one is None else one.state() for one in self.hypotheses],
            "combiners": [one.state() for one in self.combiners],
        }

    def set_round_count(self, rounds: int) -> None:
        """Raise an error: events depend on the rounds that were learned."""
        raise ValueError("the rounds of a portfolio cannot be set")

    def truncate(self, budget: int) -> None:
        """Raise an error: the memory decides how many rows are stored."""
        raise ValueError("a portfolio has no budget of rows")

    def mirrored(self, generator: np.random.Generator) -> Self | None:
        """Return None: a portfolio of numbers has no opposite labels."""
        return None

    def close_round(self, y: float, importance: float = 1.0) -> None:
        """Raise an error: rounds are played by `play` and `learn`."""
        raise ValueError("rounds of a portfolio are played as a whole")


def dense(X: Matrix, dtype: np.dtype[Any]) -> Floats:
    """Return rows as a dense array."""
    return np.ascontiguousarray(X.toarray() if issparse(X) else X, dtype)
