"""`ConformalRegressor`: intervals that contain the target in a given share of the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from budgetron._base.batches import Batch
from budgetron._base.gaussian_regressor import GaussianRegressor
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.protocol import Hypothesis
from budgetron._base.regression_trace import RegressionTrace
from budgetron._base.sizes import Prepare, as_it_is
from budgetron._core.conformal import intervals, next_intervals
from budgetron._util.checks import State, require
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.types import Floats, Matrix, Row, Rows
from budgetron.conformal._tracking import TRACKING_PARAMETERS, Tracking

__all__ = ["ConformalRegressor"]


class ConformalRegressor(Tracking, OnlineRegressor):
    """A regressor with intervals that contain the target in a given share of the rounds.

    The regressor inside learns exactly as it would alone.

    Parameters
    ----------
    learner : online regressor
        Any regressor of Budgetron. It is cloned.
    coverage : float, default=0.9
        The share of the rounds whose interval should contain the target.
    step : float, default=0.01
        How far one round moves the level of the quantile. With a larger step, coverage recovers faster after
        a change of the stream, and the widths of the intervals vary more.
    window : int, default=1000
        Number of recent scores that are kept. It should be several times 1 / (1 - coverage).

    Attributes
    ----------
    learner_ : online regressor
        The regressor after its last round.
    scores_ : ndarray of shape (window,)
        The scores of the last rounds. Round t is at place t modulo `window`.
    counts_ : ndarray of shape (2,)
        Number of rounds with a weight above 0, and of misses among them.

    Notes
    -----
    The score of a round is the absolute residual. If the learner keeps a Gaussian over functions
    (`SecondOrderRegressor`, `linear.AROWRegressor`), it is divided by sqrt(1 + v / r), which is proportional
    to the standard deviation that `predict(return_std=True)` returns, so that intervals are wide where the
    learner is uncertain. The interval is the prediction plus and minus q, or q sqrt(1 + v / r), where q is a
    quantile of the last `window` scores. Its level is 1 - m, where m is 1 - coverage at first, and changes by
    step (1 - coverage - miss) in each round (adaptive conformal inference). For m <= 0 the interval is
    infinite, as it is in the first rounds. For m >= 1 it is empty, which is written as two NaN. This happens
    only if nearly all residuals are equal.

    Guarantee, for every stream and every learner: with a = 1 - coverage, the number of misses after T rounds
    is at most a T + a / step + coverage, and at least a T - coverage / step - a. `certify` evaluates this
    (`bounds.conformal_misses`, `bounds.conformal_deviation`). `BudgetRegressor` has intervals of its own,
    which are always finite, by the same method without this guarantee.

    Targets are compared with the ends of an interval up to rounding. A row of weight 0 is predicted and not
    learned, and is not counted. The additional cost is 16 bytes per score, and O(log(window)) comparisons and
    a move of at most 8 `window` bytes per round.

    References
    ----------
    Gibbs, Candes: Adaptive Conformal Inference Under Distribution Shift (2021). Vovk, Gammerman, Shafer:
    Algorithmic Learning in a Random World (2005).

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.preprocessing import scale
    >>> from budgetron import ConformalRegressor, SecondOrderRegressor
    >>> X, y = make_friedman1(2000, random_state=0)
    >>> model = ConformalRegressor(SecondOrderRegressor(budget=100, gamma=0.1), coverage=0.8)
    >>> trace = model.progressive_fit(scale(X), y)
    >>> print(f"{trace.coverage:.3f}")
    0.800
    >>> model.predict_interval(scale(X)[:1]).round(1)
    array([[15.8, 18.7]])
    """

    _learned_names: ClassVar[frozenset[str]] = (
        OnlineRegressor._learned_names - {"_learners"}
    ) | Tracking._learned_names
    _derived_names: ClassVar[frozenset[str]] = Tracking._derived_names
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = TRACKING_PARAMETERS

    learner: OnlineRegressor
    learner_: OnlineRegressor

    def __init__(
        self, learner: OnlineRegressor, coverage: float = 0.9, *, step: float = 0.01, window: int = 1000
    ) -> None:
        self.learner = learner
        self.coverage = coverage
        self.step = step
        self.window = window

    # ------------------------------------------------------------------ prediction

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
        rows = self._check_rows(X)
        predictions, scales = self._predict_rows(rows), np.ones(rows.shape[0])
        if isinstance(self.learner_, GaussianRegressor):
            scales = np.sqrt(1.0 + self.learner_.variances(rows) / self.learner_.r)
        return next_intervals(self.threshold_, np.ascontiguousarray(predictions), scales, self._tie())

    def _decide(self, hypothesis: Hypothesis, X: Matrix) -> Floats:
        return self.learner_._decide(hypothesis, X)

    def _open_row(self, x: Row) -> float:
        return self.learner_._open_row(x)

    # ------------------------------------------------------------------ rounds

    def _validate_params(self) -> None:
        super()._validate_params()
        if not isinstance(self.learner, OnlineRegressor) or isinstance(self.learner, ConformalRegressor):
            raise ValueError(
                "the 'learner' parameter of ConformalRegressor must be a regressor of Budgetron, like "
                "linear.AROWRegressor(); put pipelines around ConformalRegressor. "
                f"Got {self.learner!r}"
            )
        self.learner._validate_params()

    def _make(self, X: Matrix, outputs: int) -> Sequence[Hypothesis]:
        self._start_tracking()
        self.learner_ = self._clone_of(self.learner)
        self.learner_._start_outputs(X, outputs)
        return self.learner_._learners

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        inside: int = self.learner._bytes_needed(X, outputs)
        return inside + self._bytes_of_tracking()

    def _refuse_large(self, X: Matrix, square: float) -> None:
        self.learner._refuse_large(X, square)

    def _needs_ledger(self) -> bool:
        return self.learner_._needs_ledger() or isinstance(self.learner_, GaussianRegressor)

    def _rounds(self, batch: Batch) -> None:
        self.learner_._rounds(batch)

    def _learn(
        self,
        X: Rows,
        y: ArrayLike,
        *,
        trace: bool = False,
        ledger: bool = False,
        weights: ArrayLike | None = None,
    ) -> RegressionTrace:
        with defer_interrupts():  # so that every round that was learned is counted
            batch = self._open_batch(X, y, trace=True, ledger=ledger, weights=weights)
            before = self._learners[0].n_supports
            self._play_parts(batch)
            own = self.learner_._trace(batch, ledger)
            scales = np.ones(len(own))
            if isinstance(self.learner_, GaussianRegressor):
                variances = self.learner_.round_variances(batch, before)
                scales = np.sqrt(1.0 + variances / self.learner_.r)
            counted = slice(None) if batch.importances is None else batch.importances > 0.0
            return replace(
                own, intervals=self._track(own.predictions[counted], scales[counted], own.targets[counted])
            )

    def _track(self, predictions: Floats, scales: Floats, targets: Floats) -> Floats:
        """Count rounds that were played; return their intervals."""
        return intervals(
            np.ascontiguousarray(predictions),
            np.ascontiguousarray(scales),
            targets,
            self._tie(),
            *self._tracked(),
        )

    def _play_round(self, x: Row, y: float) -> float:
        if isinstance(self.learner_, GaussianRegressor):  # the variance is known from the ledger of a batch
            return float(self._learn(one_row(x), np.array([y])).predictions[0])
        with defer_interrupts():
            prediction = self.learner_._play_round(x, y)
            self._track(np.array([prediction]), np.ones(1), np.array([y]))
        return prediction

    def _add_features(self, d: int) -> None:
        self.learner_._add_features(d)
        self._learners = self.learner_._learners
        self.n_features_in_ = d

    # ------------------------------------------------------------------ state

    def _checked_hypotheses(self, found: State) -> Sequence[Hypothesis]:
        learner = found["learner_"]
        require(
            isinstance(learner, OnlineRegressor) and not isinstance(learner, ConformalRegressor),
            "learner_ should be a regressor",
        )
        self._check_learner(found)
        hypotheses: Sequence[Hypothesis] = learner._learners
        return hypotheses


def one_row(x: Row) -> Rows:
    """Return one row as a matrix of one row; its values are not checked."""
    row: Any = x if issparse(x) else np.asarray(x)
    if row.ndim != 1 and row.shape[:-1] != (1,):
        raise ValueError(f"x must be one row of features; got an array of shape {row.shape}")
    return row.reshape((1, -1)).tocsr() if issparse(row) else row.reshape(1, -1)
