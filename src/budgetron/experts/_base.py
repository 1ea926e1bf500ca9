"""The base class of the expert algorithms: checks, rounds, and sums of losses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron._base.stateful_estimator import StatefulEstimator
from budgetron._util.checks import (
    MOST_ROUNDS,
    State,
    require,
    require_array,
    require_float,
    require_int,
    require_names,
)
from budgetron._util.restore import restore_on_error

Vector = NDArray[np.float64]
Loss = Callable[[Vector, Vector], Vector]

# The values that each parameter may have, as scikit-learn's validation declares them.
Constraints = dict[str, list[object]]

# The largest number of rounds whose weights are computed in one step.
BLOCK = 4096

LOSSES: dict[str, Loss] = {
    "absolute": lambda prediction, outcome: np.abs(prediction - outcome),
    "squared": lambda prediction, outcome: (prediction - outcome) ** 2,
}


@dataclass(frozen=True)
class ExpertTrace:
    """The rounds of one `play` or `play_losses`.

    Attributes
    ----------
    predictions : ndarray of shape (n_rounds,) or None
        The predictions; None if only losses were given.
    losses : ndarray of shape (n_rounds,)
        The algorithm's loss; for randomized algorithms, the expected loss.
    expert_losses : ndarray of shape (n_experts,)
        Each expert's total loss over these rounds.
    weights : ndarray of shape (n_experts,)
        The experts' normalized weights after the last round. They sum to 1, or to 0 if all weights are 0.
    """

    predictions: Vector | None
    losses: Vector
    expert_losses: Vector
    weights: Vector

    @property
    def best_expert(self) -> int:
        """The expert with the smallest total loss; the first one in a tie."""
        return int(self.expert_losses.argmin())

    @property
    def regret(self) -> float:
        """Own loss minus that of the best expert."""
        return float(self.losses.sum() - self.expert_losses.min())


class ExpertAlgorithm(StatefulEstimator):
    """A rule that weighs experts by their losses.

    A subclass computes the weights from the losses. It implements `_start`, which creates its state,
    `_log_weights` or `_block_weights`, which returns the weights before each round of a block, and
    `_update_weights`, which adds a block of losses to the state.
    """

    _parameter_constraints: ClassVar[Constraints] = {}

    # Whether advice, outcomes and losses must be 0 or 1.
    _binary: ClassVar[bool] = False

    # Whether the algorithm's loss is that of the weighted average of the advice. Otherwise it is the expected
    # loss of an expert drawn by weight.
    _averages: ClassVar[bool] = False

    # Loss of a prediction given the outcome; a parameter of some algorithms.
    loss: str | Loss = "absolute"

    n_experts_: int
    rounds_: int
    loss_: float
    expert_losses_: Vector

    def _start(self) -> None:
        """Create the state for `n_experts_` experts."""
        raise NotImplementedError

    def _log_weights(self, losses: Vector) -> Vector:
        """Return the log-weights before each round of a block of losses, of shape (n_rounds, n_experts)."""
        raise NotImplementedError

    def _block_weights(self, losses: Vector) -> Vector:
        """Return the normalized weights before each round of a block, of shape (n_rounds, n_experts)."""
        return normalized(self._log_weights(losses))

    def _update_weights(self, losses: Vector, own: Vector, weights: Vector) -> None:
        """Update the state by a block: losses of the experts, own losses, and weights before each round."""
        raise NotImplementedError

    def _check_own_state(self, found: State, rounds: int) -> None:
        """Raise `ValueError` if the state that only this algorithm has is invalid after this many rounds."""

    def _block_rounds(self, rounds: int) -> int:
        """Return how many of the next `rounds` rounds can be computed in one step."""
        return min(rounds, BLOCK)

    def _predict_rows(self, weights: Vector, advice: Vector) -> Vector:
        average: Vector = np.einsum("ti,ti->t", weights, advice)  # (8.13)
        return np.clip(average, 0.0, 1.0)  # weights sum to 1 only up to rounding

    def _loss_function(self) -> Loss:
        return LOSSES[self.loss] if isinstance(self.loss, str) else self.loss

    def _own_losses(
        self, predictions: Vector | None, outcomes: Vector | None, weights: Vector, losses: Vector
    ) -> Vector:
        """Return the losses of the weighted average, or the expected ones; a linear loss makes them equal."""
        if self._averages and predictions is not None and outcomes is not None:
            return self._check_losses(
                self._loss_function()(predictions, outcomes), "the loss function's values"
            )
        expected: Vector = np.einsum("ti,ti->t", weights, losses)
        return expected

    # ------------------------------------------------------------------ one round

    @property
    def weights_(self) -> Vector:
        """The experts' normalized weights in the next round."""
        if not self._is_started():
            raise AttributeError(f"this {type(self).__name__} has not seen any advice yet")
        shares: Vector = self._block_weights(np.zeros((1, self.n_experts_)))[0]
        return shares

    @property
    def regret_(self) -> float:
        """Own loss minus that of the best expert, over all rounds so far."""
        if not self._is_started():
            raise AttributeError(f"this {type(self).__name__} has not seen any outcome yet")
        return float(self.loss_ - self.expert_losses_.min())

    def predict(self, advice: ArrayLike) -> float:
        """Predict from the advice of the experts, without learning.

        Parameters
        ----------
        advice : array-like of shape (n_experts,)

        Returns
        -------
        float
        """
        rows = self._check_advice(one_round(advice))
        self._begin(rows.shape[1])
        return float(self._predict_rows(self.weights_[None, :], rows)[0])

    def update(self, advice: ArrayLike, outcome: float) -> float:
        """Update the weights by the outcome of the round that was predicted from this advice.

        Parameters
        ----------
        advice : array-like of shape (n_experts,)
        outcome : float

        Returns
        -------
        float
            The algorithm's loss in the round.
        """
        trace = self.play(one_round(advice), [outcome])
        return float(trace.losses[0])

    # ------------------------------------------------------------------ many rounds

    def play(self, advice: ArrayLike, outcomes: ArrayLike) -> ExpertTrace:
        """Predict and update round by round.

        Parameters
        ----------
        advice : array-like of shape (n_rounds, n_experts)
        outcomes : array-like of shape (n_rounds,)

        Returns
        -------
        ExpertTrace
        """
        rows = self._check_advice(numbers(advice, "advice"))
        results = self._check_range(numbers(outcomes, "outcomes"), "outcomes")
        if results.shape != (len(rows),):
            raise ValueError(
                f"outcomes must have shape ({len(rows)},), one per row of advice; got {results.shape}"
            )
        with restore_on_error(self, dict(self.__dict__)):  # a loss function of the caller may fail
            self._begin(rows.shape[1])
            losses = self._check_losses(
                self._loss_function()(rows, results[:, None]), "the loss function's values"
            )
        return self._play(losses, rows, results)

    def play_losses(self, losses: ArrayLike) -> ExpertTrace:
        """Update round by round, given each expert's loss instead of its advice.

        The algorithm's loss is the expected loss of an expert drawn by weight.

        Parameters
        ----------
        losses : array-like of shape (n_rounds, n_experts), in [0, 1]

        Returns
        -------
        ExpertTrace
        """
        rows = self._check_losses(losses, "losses")
        if rows.ndim != 2:
            raise ValueError(f"losses must have shape (n_rounds, n_experts); got {rows.shape}")
        self._check_width(rows)
        self._begin(rows.shape[1])
        return self._play(rows, None, None)

    def _play(self, losses: Vector, advice: Vector | None, outcomes: Vector | None) -> ExpertTrace:
        own = np.empty(len(losses))
        predictions = None if advice is None else np.empty(len(losses))
        # After the checks only a loss function of the caller can fail. It might change arrays in place.
        before = copy.deepcopy(self.__dict__) if callable(self.loss) else self.__dict__.copy()
        with restore_on_error(self, before):
            for rows in self._blocks(len(losses)):
                weights = self._block_weights(losses[rows])
                block_predictions = None
                if advice is not None and predictions is not None:
                    block_predictions = predictions[rows] = self._predict_rows(weights, advice[rows])
                block_outcomes = None if outcomes is None else outcomes[rows]
                own[rows] = self._own_losses(block_predictions, block_outcomes, weights, losses[rows])
                self._update_weights(losses[rows], own[rows], weights)
                self.rounds_ += len(own[rows])
        totals = losses.sum(axis=0)
        self.loss_ += float(own.sum())
        self.expert_losses_ = self.expert_losses_ + totals
        return ExpertTrace(predictions, own, totals, self.weights_)

    def _blocks(self, rounds: int) -> Iterator[slice]:
        # Not `row_blocks`: the length of a block may depend on the round.
        start = 0
        while start < rounds:
            length = self._block_rounds(rounds - start)
            yield slice(start, start + length)
            start += length

    # ------------------------------------------------------------------ state

    def learned_state(self) -> State | None:
        if not self._is_started():
            return None
        names = self._learned_attributes()
        return {name: value for name, value in vars(self).items() if name in names}

    def _learned_attributes(self) -> frozenset[str]:
        return frozenset(self._state_of_one_expert())

    def _state_of_one_expert(self) -> State:
        """Return the state before the first round of an algorithm with these parameters and one expert."""
        parameters = self.get_params(deep=False)
        begun = type(self)(**parameters)
        begun._begin(1)
        return {name: value for name, value in vars(begun).items() if name not in parameters}

    def set_learned_state(self, found: State) -> None:
        expected = self._state_of_one_expert()
        require_names(found, set(expected), type(self).__name__)
        n = require_int(found["n_experts_"], 1, MOST_ROUNDS, "number of experts")
        for name, small in expected.items():
            if isinstance(small, np.ndarray):
                require_array(found[name], small.dtype, (n,), name)
            elif isinstance(small, np.random.RandomState):
                require(isinstance(found[name], np.random.RandomState), f"{name} should be a RandomState")
            elif isinstance(small, float):
                require_float(found[name], name)
        rounds = require_int(found["rounds_"], 0, MOST_ROUNDS, "rounds")
        for name in ("loss_", "expert_losses_"):  # the loss of a round is at most 1
            sums = np.asarray(found[name])
            most = rounds * (1.0 + 1e-9)
            require(np.all((sums >= 0.0) & (sums <= most)), f"{name} should be a sum of losses")
        for name, value in found.items():
            if isinstance(value, np.ndarray | float):
                require(not np.isnan(value).any(), f"{name} should be numbers")
        self._check_own_state(found, rounds)
        self.__dict__.update(found)

    # ------------------------------------------------------------------ checks

    def _is_started(self) -> bool:
        return "n_experts_" in self.__dict__

    def _begin(self, n_experts: int) -> None:
        if not self._is_started():
            self._validate_params()
            self.n_experts_, self.rounds_, self.loss_ = n_experts, 0, 0.0
            self.expert_losses_ = np.zeros(n_experts)
            self._start()

    def _check_width(self, rows: Vector) -> None:
        if rows.shape[1] == 0:
            raise ValueError("there must be at least one expert")
        if self._is_started() and rows.shape[1] != self.n_experts_:
            raise ValueError(f"the first round had {self.n_experts_} experts; got {rows.shape[1]}")

    def _check_advice(self, rows: Vector) -> Vector:
        if rows.ndim != 2:
            raise ValueError(
                "advice must have shape (n_rounds, n_experts), or (n_experts,) for one round; "
                f"got {rows.shape}"
            )
        self._check_width(rows)
        return self._check_range(rows, "advice")

    def _check_range(self, values: Vector, name: str) -> Vector:
        wrong = ~np.isin(values, (0.0, 1.0)) if self._binary else ~((values >= 0.0) & (values <= 1.0))
        if wrong.any():
            where = tuple(int(i) for i in np.argwhere(wrong)[0])
            kind = "0 or 1" if self._binary else "in [0, 1]"
            raise ValueError(f"{name} must be {kind}; the value at {where} is {values[where]}")
        return values

    def _check_losses(self, values: ArrayLike, name: str) -> Vector:
        return self._check_range(numbers(values, name), name)


def numbers(values: ArrayLike, name: str) -> Vector:
    """Return values as an array of float64."""
    found = np.asarray(values)
    if found.dtype.kind == "c":  # NumPy would discard the imaginary part
        raise ValueError(f"{name} must be real numbers; got complex ones")
    return found.astype(np.float64, copy=False)


def one_round(advice: ArrayLike) -> Vector:
    """Return the advice of one round as an array of one row."""
    row = numbers(advice, "advice")
    if row.ndim != 1:
        raise ValueError(f"the advice of one round must have shape (n_experts,); got {row.shape}")
    return row[None, :]


def normalized(log_weights: Vector) -> Vector:
    """Return weights that sum to 1 in each row, from their logarithms; zeros if all weights are 0."""
    highest = log_weights.max(axis=1, keepdims=True)
    weights = np.exp(log_weights - np.where(np.isfinite(highest), highest, 0.0))
    total = weights.sum(axis=1, keepdims=True)
    shares: Vector = np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)
    return shares


def before_each(losses: Vector, start: Vector) -> Vector:
    """Return the sum of `start` and all rows before each row."""
    totals = np.empty_like(losses)
    totals[0] = start
    np.cumsum(losses[:-1], axis=0, out=totals[1:])
    totals[1:] += start
    return totals
