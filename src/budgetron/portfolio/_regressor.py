"""`BudgetRegressor`: experts of several kinds in one memory, combined into one regressor."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, TypedDict

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from budgetron import bounds
from budgetron._base.batches import Batch
from budgetron._base.large_values import refuse_large_features
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.parameters import Constraints
from budgetron._base.regression_trace import RegressionTrace
from budgetron._base.sizes import Prepare, as_it_is
from budgetron._util.checks import State
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.types import Floats, Ints, Matrix, Row, Rows
from budgetron._util.units import parse_bytes
from budgetron.bounds import Check
from budgetron.portfolio._regression import BLOCK, LARGEST_SQUARE, SHARED_PART, RegressionPortfolio
from budgetron.portfolio._regression_state import restored_portfolio

__all__ = ["BudgetRegressor", "RegressionExpert"]


class RegressionExpert(TypedDict):
    """An expert or combiner of `BudgetRegressor`.

    `weight` is its weight in the prediction, and `supports` the number of rows that it stores.
    """

    name: str
    active: bool
    weight: float
    supports: int


class BudgetRegressor(OnlineRegressor):
    """Regression on a stream within a memory limit, without parameters to choose.

    It is the regressor to try first. It scales features and targets as they come, plays regressors of several
    kinds and widths, combines their predictions, and tracks a prediction interval. Use
    `SecondOrderRegressor` or `linear.AROWRegressor` if you want a single, simple model.

    Parameters
    ----------
    memory : int or str, default="16MB"
        The largest number of bytes of all numbers that the model keeps (`nbytes_`), as a number or as text
        like "512kB". 1 MB is 2^20 bytes. Kernel experts store at most 239 rows each, so that more than about
        16 MB is only needed for wide rows.
    level : float, default=0.9
        The share of the targets that the intervals should contain.

    Attributes
    ----------
    experts_ : list of dict
        The combiners, the leader and the experts, with their weights in the prediction.

    Notes
    -----
    *Experts.* The mean of all targets, two recent means and the last target; recursive least squares that
    keeps everything, forgets slowly or forgets fast, and with the last three targets as features; and
    second-order kernel regressors (`SecondOrderRegressor`) of several widths, one that forgets, one with the
    last targets as features, and two with learned feature scales (`relevance.feature_scales`).
    The first 50 rows are kept to find the scale of the targets and the width of the kernels, and are then
    learned. After 1,000 rounds the feature scales are learned from these rows. After 1,500 rounds four kernel
    experts go on: the two best of those that forget, and the two best of the others.

    *Combination.* The leader is the expert with the smallest recent squared error. Three combiners, which
    forget nothing, slowly or fast, are recursive least squares on the differences of all experts from the
    leader: they learn what to add to its prediction. The prediction is the mean of combiners, leader and
    experts, clipped to the range of the targets so far, and weighted by fixed share on the squared loss.
    Combiners and leader have 95 % of the first weights.

    *Guarantee.* For any stream, and any sequence of the combiners, the leader and the experts with k
    switches, the sum of the squared errors is at most that of the sequence plus::

        2 R^2 ((k + 1) ln(1 / (a p)) + n ln(1 / (1 - a))) + growth

    where R is the largest error of a clipped prediction, n the number of rounds, a = 0.0001, p the smallest
    first weight, and `growth` the squared errors of the rounds that extended the range of the targets or R.
    `certify` evaluates it after a run with ``ledger=True`` (`bounds.fixed_share_squares`).

    *Intervals.* `predict_interval` returns an interval for each row: the prediction plus and minus a quantile
    of the last 500 errors, each divided by the size of the errors before it. The level of the quantile moves
    with each round, up after a miss and down otherwise (adaptive conformal inference), so that over long runs
    the share of misses is 1 - level, also on streams that change.

    Rows are dense inside. Sparse rows are accepted; with many features, fewer supports fit in the memory. A
    row of weight b counts b times in the losses, and the guarantee is for rows of weight 1. Single rounds
    (`play`) are much slower than batches.

    References
    ----------
    Herbster, Warmuth: Tracking the Best Expert (1998). Kivinen, Warmuth: Averaging Expert Predictions (1999).
    Gibbs, Candes: Adaptive Conformal Inference Under Distribution Shift (2021).

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from budgetron import BudgetRegressor
    >>> X, y = make_friedman1(3000, noise=1.0, random_state=0)
    >>> model = BudgetRegressor("2MB")
    >>> trace = model.progressive_fit(X, y)
    >>> model.nbytes_ <= 2 * 2**20
    True
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "memory": [Integral, str],
        "level": [Interval(Real, 0.0, 1.0, closed="neither")],
    }

    _learners: Sequence[RegressionPortfolio]

    def __init__(self, memory: int | str = "16MB", level: float = 0.9) -> None:
        self.memory = memory
        self.level = level

    def _validate_params(self) -> None:
        super()._validate_params()
        parse_bytes(self.memory)

    def _make(self, X: Matrix, outputs: int) -> list[RegressionPortfolio]:
        return [RegressionPortfolio(X.shape[1], X.dtype, parse_bytes(self.memory), float(self.level))]

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[RegressionPortfolio]:
        memory, d = parse_bytes(self.memory), found["n_features_in_"]
        return [restored_portfolio(state, d, dtype, memory, float(self.level)) for state in states]

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        self._make(X, outputs)  # raises an error if the memory is too small
        return parse_bytes(self.memory)

    def _refuse_large(self, X: Matrix, square: float) -> None:
        if not square < LARGEST_SQUARE:
            refuse_large_features(X, LARGEST_SQUARE**0.5 / X.shape[1])

    def _fitted(self) -> Sequence[RegressionPortfolio]:
        super()._fitted()
        return self._learners

    def _parts(self, batch: Batch) -> Any:
        for start in range(0, len(batch), 16 * BLOCK):
            yield batch.part(slice(start, start + 16 * BLOCK))

    def _needs_ledger(self) -> bool:
        return True  # for the intervals of the trace

    def _trace(self, batch: Batch, ledger: bool) -> RegressionTrace:
        trace = super()._trace(batch, ledger)
        assert batch.ledger is not None
        return RegressionTrace(
            trace.predictions, trace.targets, trace.support_sizes, trace.ledger, batch.ledger[0, :, :2].copy()
        )

    def _ledger(self, batch: Batch) -> dict[str, Floats | Ints]:
        columns = super()._ledger(batch)
        return {"loss": (batch.labels[0] - self._predictions(batch)) ** 2, **columns}

    # ------------------------------------------------------------------ predictions

    def predict_interval(self, X: Rows) -> Floats:
        """Return the prediction interval of each row, as the next one of the stream.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, 2)
            The lower and the upper end.
        """
        check_is_fitted(self)
        return self._learners[0].bands(self._predict_rows(self._check_rows(X)))

    def _play_round(self, x: Row, y: float) -> float:
        with defer_interrupts():
            return super()._play_round(x, y)

    # ------------------------------------------------------------------ experts

    @property
    def experts_(self) -> list[RegressionExpert]:
        """The combiners, the leader and the experts, with their weights in the prediction."""
        portfolio = self._fitted()[0]
        return portfolio.summary()

    def share_bound(self, losses: float, rounds: int, switches: int, check: Check) -> float:
        """Return the bound of the loss, given that of a sequence of candidates with so many switches."""
        portfolio = self._fitted()[0]
        return bounds.fixed_share_squares(
            losses,
            rounds,
            switches,
            SHARED_PART,
            float(portfolio.prior.min()),
            float(portfolio.reach[2]),
            float(portfolio.reach[3]),
            check=check,
        )

    @property
    def coverage_level_(self) -> float:
        """The level of the quantile that gives the next interval; it moves with each round."""
        return 1.0 - float(self._fitted()[0].tracker[0])
