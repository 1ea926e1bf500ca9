"""The experts of a regression portfolio in one memory: they start, learn, and end. See `_regression`."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from budgetron._base.sizes import MemoryTooSmallError
from budgetron._core.rounds import Learner
from budgetron._util.types import Floats, Matrix
from budgetron.portfolio._regression_experts import (
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

__all__ = ["EVENTS", "RegressionPool", "dense"]

# Rounds after which experts start, after which feature scales are learned, and after which all but the
# best kernel experts end: KERNELS_KEPT of those that forget, and KERNELS_KEPT of the others.
START_AT, SCALE_AT, DROP_AT, KERNELS_KEPT = 50, 1000, 1500, 2
# Blocks of rounds end at these.
EVENTS = (START_AT, SCALE_AT, DROP_AT)
# A full covariance of the features may take this part of the memory.
FULL_SHARE = 32
# The most rows of the window that feature scales are learned from take this part of the memory.
WINDOW_SHARE = 4
# Standardised targets are clipped to this: the first targets may have a tiny deviation.
LARGEST_STANDARDISED = 1e30
# The names of the arrays that a state has.
EXPERT_ARRAYS = ("unit", "means", "lags", "active", "recent", "totals", "gammas", "scales")
WINDOW_ARRAYS = ("window", "window_targets")


class RegressionPool:
    """Experts on rows of d features, in one memory.

    Parameters
    ----------
    d : int
    dtype : dtype
        Of the rows, float32 or float64.
    memory : int
        The largest number of bytes of all arrays.
    """

    def __init__(self, d: int, dtype: np.dtype[Any], memory: int) -> None:
        self.d, self.dtype, self.memory = d, np.dtype(dtype), memory
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
        self.window: Floats = np.zeros((self._window_rows(), d), dtype)
        self.window_targets = np.zeros(len(self.window))

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
        arrays = [getattr(self, name) for name in (*EXPERT_ARRAYS, *WINDOW_ARRAYS)]
        return self.scaler.nbytes + int(sum(array.nbytes for array in arrays)) + self._combination_bytes()

    def _combination_bytes(self) -> int:
        """Return the bytes of the arrays that combine the experts; a subclass has them."""
        return 0

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

    def _width(self, lags: bool) -> int:
        """Return the number of features of a linear expert: a constant, perhaps the last targets, and d."""
        return 1 + (LAGS if lags else 0) + self.d

    def _kernel_width(self, i: int) -> int:
        return self.d + (LAGS if DESIGNS[i].lags else 0)

    # ------------------------------------------------------------------ rounds

    def learn_rows(self, X: Floats, y: Floats, importances: Floats) -> Floats:
        """Let all experts learn rows; return their predictions before each target, 0 of inactive ones.

        The rounds are not counted yet.
        """
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
        return predictions

    def predict_rows(self, X: Matrix) -> Floats:
        """Return the predictions of all experts for rows, each as the next one; 0 of inactive ones."""
        rows = self.scaler.apply(dense(X, self.dtype))
        lagged = np.tile(self.lags, (len(rows), 1))
        predictions = np.zeros((len(rows), len(DESIGNS)))
        for i, design in enumerate(DESIGNS):
            expert = self.hypotheses[i]
            if design.kind == "mean":
                total, weight = self.means[i]
                predictions[:, i] = total / weight if weight else 0.0
            elif expert is not None:
                values = expert.decide(self._rows_for(i, rows, lagged))
                predictions[:, i] = self.unit[0] + self.unit[1] * values
        return predictions

    def _mean_predictions(self, y: Floats) -> Floats:
        """Return the predictions of the means, and learn the targets; those of other experts are 0."""
        predictions = np.zeros((len(y), len(DESIGNS)))
        for i, design in enumerate(DESIGNS):
            if design.kind != "mean":
                continue
            total, weight = self.means[i].tolist()
            before = []
            for target in y.tolist():
                before.append(total / weight if weight else 0.0)
                total, weight = design.forget * total + target, design.forget * weight + 1.0
            predictions[:, i], self.means[i] = before, (total, weight)
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

    def handle_events(self) -> None:
        """Start and end experts if it is time, after the rounds of a block."""
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


def dense(X: Matrix, dtype: np.dtype[Any]) -> Floats:
    """Return rows as a dense array."""
    return np.ascontiguousarray(X.toarray() if issparse(X) else X, dtype)
