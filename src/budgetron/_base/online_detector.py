"""`OnlineDetector`: scikit-learn's interface for detectors of unusual rows that play rounds."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from budgetron import bounds
from budgetron._base.alarms import AlarmThreshold
from budgetron._base.batches import Batch, largest_square, ledger_columns, refuse_unknown
from budgetron._base.detection_trace import DetectionTrace
from budgetron._base.kernel_estimator import KernelEstimator
from budgetron._base.large_values import name_large_value, refuse_large_row
from budgetron._base.parameters import Constraints
from budgetron._base.progress import verbose_call
from budgetron._util.checks import State
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.threads import one_thread
from budgetron._util.types import Floats, Matrix, Row, Rows
from budgetron.bounds import Check

__all__ = ["OnlineDetector"]

NO_CODES = np.zeros(0, np.intp)


class OnlineDetector(OutlierMixin, KernelEstimator):
    """The base of the detectors. A subclass defines which rule it follows (`_rule` or `_rules`).

    The label of every row is 1, and the margins of the hypothesis are the scores: f(x) is large where rows
    are frequent. A subclass may have other scores; then it overrides the methods under "scores of rows". The
    threshold of the scores is not part of the hypothesis; see `AlarmThreshold`.
    """

    _parameter_constraints: ClassVar[Constraints] = KernelEstimator._parameter_constraints | {
        "false_alarm_rate": [Interval(Real, 0.0, 1.0, closed="neither")],
    }
    _learned_names: ClassVar[frozenset[str]] = KernelEstimator._learned_names | {"_threshold"}

    false_alarm_rate: float
    _threshold: AlarmThreshold

    # ------------------------------------------------------------------ learning

    def fit(self, X: Rows, y: object = None, *, verbose: bool = False, **unknown: Never) -> Self:
        """Forget everything, then play one round per row, in the given order.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "fit", unknown)
        with self._unchanged_on_error(), verbose_call(verbose):
            self._forget()
            self._learn(X)
        return self

    def partial_fit(self, X: Rows, y: object = None, *, verbose: bool = False, **unknown: Never) -> Self:
        """Play one round per row, in the given order, and continue from the current state.

        The result does not depend on how a stream is cut into batches (but ``gamma="scale"``
        is fixed by the first).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        self
        """
        refuse_unknown(self, "partial_fit", unknown)
        with self._unchanged_on_error(), verbose_call(verbose):
            self._learn(X)
        return self

    def progressive_fit(
        self, X: Rows, y: object = None, *, ledger: bool = False, verbose: bool = False
    ) -> DetectionTrace:
        """Do what `partial_fit` does, and return the trace.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        ledger : bool, default=False
            Whether to record quantities of the algorithm.
        verbose : bool, default=False
            Whether to print on stderr, about once a second, how many rounds were played.

        Returns
        -------
        DetectionTrace
        """
        with self._unchanged_on_error(), verbose_call(verbose):
            return self._learn(X, ledger=ledger)

    def _learn(self, X: Rows, *, ledger: bool = False) -> DetectionTrace:
        batch = self._open_batch(X, ledger)
        start, supports = self.rounds_, self._learners[0].n_supports
        try:
            self._play_parts(batch)
        except KeyboardInterrupt:  # the rounds before it count
            self._count_scores(batch, self.rounds_ - start, supports, ledger)
            raise
        return self._count_scores(batch, len(batch), supports, ledger)

    def _open_batch(self, X: Rows, ledger: bool) -> Batch:
        """Check the rows of a batch, and make the hypothesis if it is the first."""
        self._check_parameters()
        first = not self.__sklearn_is_fitted__()
        rows = self._check_rows(X)
        square = largest_square(rows)
        self._refuse_large(rows, square)
        if first:
            self._start_outputs(rows, 1)
        n, names = rows.shape[0], self._learners[0].ledger
        return Batch(
            X=rows,
            square=square,
            codes=NO_CODES,
            labels=[np.ones(n)],
            margins=np.empty((1, n)),
            sizes=np.empty((1, n), np.int64),
            ledger=np.empty((1, n, len(names))) if ledger or self._needs_ledger() else None,
            importances=None,
        )

    def _start_outputs(self, X: Matrix, outputs: int) -> None:
        super()._start_outputs(X, outputs)
        self._threshold = AlarmThreshold(self.false_alarm_rate, X.dtype == np.float32)

    def _count_scores(self, batch: Batch, n: int, supports: int, ledger: bool) -> DetectionTrace:
        """Move the threshold by the first n rounds of a batch; return their trace."""
        assert batch.sizes is not None
        scores = self._round_scores(batch, n, supports)
        with defer_interrupts():  # the threshold counts the rounds that the hypothesis has played
            offsets = np.array([self._threshold.observe(score) for score in scores.tolist()])
        entries = batch.ledger[:, :n] if ledger and batch.ledger is not None else None
        return DetectionTrace(
            scores=scores,
            offsets=offsets,
            support_sizes=batch.sizes[0, :n],
            ledger=None if entries is None else ledger_columns(self._learners[0].ledger, entries),
        )

    def play(self, x: Row) -> float:
        """Play one round: return the score of x, then learn it.

        Much faster than `partial_fit` on one row. Only shape and finiteness are checked. Compare the score
        with `offset_` before the round to see whether x is an alarm.

        Parameters
        ----------
        x : array-like of shape (n_features,), or a CSR matrix with one row

        Returns
        -------
        float
            The score before x was learned.
        """
        if not self.__sklearn_is_fitted__():
            with self._unchanged_on_error():
                self._check_parameters()
                self._start_outputs(self._first_row(x), 1)
                return self._play_round(x)
        return self._play_round(x)

    def _play_round(self, x: Row) -> float:
        hypothesis = self._learners[0]
        with defer_interrupts():
            try:
                score = self._played_score(hypothesis.play(x, 1.0))
            except ValueError as error:
                refuse_large_row(x, hypothesis.dtype, error)
                raise
            self._threshold.observe(score)
        return score

    # ------------------------------------------------------------------ scores of rows

    def _needs_ledger(self) -> bool:
        """Return whether the scores of a batch need its ledger."""
        return False

    def _round_scores(self, batch: Batch, n: int, supports: int) -> Floats:
        """Return the scores of the first n rounds of a batch; `supports` were stored before it."""
        assert batch.margins is not None
        return batch.margins[0, :n]

    def _played_score(self, margin: float) -> float:
        """Return the score of the round that was just played, whose margin is given."""
        return float(margin)

    def _row_scores(self, X: Matrix) -> Floats:
        """Return the scores of rows that were checked."""
        return self._decide(self._learners[0], X)

    # ------------------------------------------------------------------ scores and alarms

    def score_samples(self, X: Rows) -> Floats:
        """Return the score of each row: f(x), which is low where rows are unusual.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        rows = self._check_rows(X)
        with name_large_value(rows):
            with one_thread():
                scores = self._row_scores(rows)
            if not np.isfinite(scores).all():
                row = int(np.flatnonzero(~np.isfinite(scores))[0])
                raise ValueError(f"the score of row {row} is not finite; scale the features")
        return scores

    def score_row(self, x: Row) -> float:
        """Return the score of one row of numbers, which is checked less than by `score_samples`."""
        # Opening a round without closing it does not change f.
        return float(self._fitted()[0].open_round(x))

    def decision_function(self, X: Rows) -> Floats:
        """Return the score of each row minus the threshold `offset_`. Rows below 0 are alarms.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Infinite while the threshold is.
        """
        scores = self.score_samples(X)
        decisions: Floats = scores - self.offset_
        return decisions

    def predict(self, X: Rows) -> NDArray[np.int64]:
        """Return -1 for rows that are alarms, and 1 for all others.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    @property
    def offset_(self) -> float:
        """The threshold: rows with a score below it are alarms. It is -inf while there were too few rows."""
        self._fitted()
        return self._threshold.offset

    @property
    def alarms_(self) -> int:
        """Number of rounds whose row was an alarm before it was learned."""
        self._fitted()
        return self._threshold.alarms

    @property
    def nbytes_(self) -> int:
        """Bytes of all numbers that the model keeps: rows, coefficients, recent scores."""
        return super().nbytes_ + self._threshold.nbytes

    def alarm_bound(self, rounds: int, check: Check) -> float:
        """Return the largest possible number of alarms in so many rounds, for `certify`."""
        return bounds.false_alarms(rounds, self.false_alarm_rate, check=check)

    # ------------------------------------------------------------------ state and features

    def learned_state(self) -> State | None:
        state = super().learned_state()
        return None if state is None else state | {"_threshold": self._threshold.state()}

    def _check_learned(self, found: State, hypotheses: Sequence[Any]) -> None:
        super()._check_learned(found, hypotheses)
        found["_threshold"] = AlarmThreshold.from_state(
            found["_threshold"],
            found["_started_with"]["false_alarm_rate"],
            hypotheses[0].dtype == np.float32,
            hypotheses[0].rounds,
        )

    def _add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""
        for hypothesis in self._learners:
            hypothesis.add_features(d)
        self.n_features_in_ = d

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
