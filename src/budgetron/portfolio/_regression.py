"""One hypothesis for numbers, made of experts: means, linear and kernel regressors, and their combination.

`_regression_pool` has the experts. This module combines their predictions.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from budgetron._core.rounds import Learner
from budgetron._core.squared_share import combined, current_leader, intervals, lead, next_intervals, share
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix, Row
from budgetron.portfolio._regression_experts import COMBINERS, DESIGNS, linear_rule
from budgetron.portfolio._regression_pool import (
    EVENTS,
    EXPERT_ARRAYS,
    START_AT,
    WINDOW_ARRAYS,
    RegressionPool,
    dense,
)

__all__ = ["RegressionPortfolio"]

# Rows of a block: the largest number whose predictions are computed together.
BLOCK = 256
# What the leader, the scale of the intervals, and the interval keep of earlier rounds.
LEADER_KEEP, SPREAD_KEEP, INTERVAL_RATE, SCORES_KEPT = 0.99, 0.98, 0.02, 500
# The part of the weights that fixed share distributes, and the first weight of all experts together.
SHARED_PART, EXPERT_PRIOR = 1e-4, 0.05
# Variance of the noise of the combiners, in parts of the variance of the targets.
COMBINER_NOISE = 1.0
# Rows of a larger squared norm might overflow in the sums of the scaler.
LARGEST_SQUARE = 1e150
# The names of the arrays that a state has.
COMBINATION_ARRAYS = ("weights", "reach", "scores", "ordered", "tracker")
ARRAYS = (*EXPERT_ARRAYS, *COMBINATION_ARRAYS, *WINDOW_ARRAYS)
NO_WEIGHTS = np.zeros(0)


class RegressionPortfolio(RegressionPool):
    """Experts on rows of d features, in one memory, and their combination.

    Parameters
    ----------
    d, dtype, memory
        As for `RegressionPool`.
    level : float
        The share of the targets that the intervals should contain.
    """

    mistakes, budget = 0, 1  # rows are always stored within the memory

    def __init__(self, d: int, dtype: np.dtype[Any], memory: int, level: float) -> None:
        super().__init__(d, dtype, memory)
        self.level = level
        n = len(DESIGNS)
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
        self._check_memory()

    def _combination_bytes(self) -> int:
        arrays = [self.prior, *(getattr(self, name) for name in COMBINATION_ARRAYS)]
        combiners = sum(combiner.nbytes for combiner in self.combiners)
        return combiners + int(sum(array.nbytes for array in arrays))

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
            ends = [event - self.rounds for event in EVENTS if event > self.rounds]
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
            self.handle_events()

    def _learn_block(
        self, X: Floats, y: Floats, importances: Floats, margins: Floats | None, ledger: Floats | None
    ) -> None:
        predictions = self.learn_rows(X, y, importances)
        self._combine(predictions, y, importances, margins, ledger)
        self.rounds += len(y)

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

    # ------------------------------------------------------------------ predictions

    def _candidates(self, X: Matrix) -> Floats:
        """Return the predictions of all candidates for rows, each as the next one."""
        predictions = self.predict_rows(X)
        n, k = len(predictions), len(COMBINERS)
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
