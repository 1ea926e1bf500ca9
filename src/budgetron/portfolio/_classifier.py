"""The learner to use where nothing is known beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron import bounds
from budgetron._base.batches import Batch
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.protocol import Hypothesis
from budgetron._base.types import Floats, Rows
from budgetron._core.calibration import calibrate, log_odds, sigmoids, sound
from budgetron._util.checks import State, require
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.units import parse_bytes
from budgetron.calibration import probabilities
from budgetron.portfolio._experts import Plan
from budgetron.portfolio._portfolio import Portfolio, TooLittleMemoryError
from budgetron.portfolio._state import portfolio_of

__all__ = ["BudgetClassifier"]

# Rows that all learn before an interrupt is heeded.
AT_ONCE = 256


class BudgetClassifier(OnlineClassifier):
    """The learner that needs no choice: one memory budget, and the fewest mistakes on the stream.

    Linear and kernel experts of several kinds and widths learn side by side, on rows as they are and
    standardised; a second-order learner combines them, and exponential weights see to it that the prediction
    is nearly as good as the best of them all. Memory moves to the experts that earn it.

    Parameters
    ----------
    memory : int or str, default="16MB"
        The most bytes that the model keeps, from the first round on; "64kB", "16MB" and "1GB" are counted by
        1024. More memory means more supports, up to 1200: mostly fewer mistakes, and more time a round.
        Classes share it. The wider rows are, the more is needed for kernel experts: with less than some
        100 kB for each class they are few, or none, and the others linear (see `experts_`).
    random_state : int, RandomState or None, default=None
        Draws the sample of rows that tells whether the stream's scale has changed.

    Attributes
    ----------
    experts_ : list of dict
        For each expert its name, error over the rounds that it played, share of the vote, supports and bytes,
        and whether it is active.

    Notes
    -----
    The experts: AROW, on rows as they are and on standardised ones; two passive-aggressive learners; kernel
    PA-I that forgets its oldest supports, at two widths; and `SecondOrderProjectron` at four widths on rows
    as they are, and four on standardised ones, or as many of these as can have 60 supports each. Kernel
    experts begin after 64 rows, or fewer where 64 would take much of the memory. After 250 rounds, 500 and
    1000, the weaker half of the second-order ones ends and the others may grow into its memory, until one is
    left. Who made no more mistakes since the last time than the best, whose number is M, and sqrt(M) more, is
    as good as the best for all that is known: of these, moderate widths stay, for narrow ones that look good
    early are soon short of supports. The combiner believes the first that stays as much more as it believed
    those that end. The last one may have 800 supports at 16 MB, and from 400 to 1200 by the root of the
    memory, for its rounds take time by their square. What an expert may take is promised to it; it takes it
    as supports come. A width is a number by the median squared distance between rows; when none ends any
    more, after 2000 rounds, 4000 and so on, or sooner where few began, an expert that is not the best begins
    anew if this distance has changed fourfold. The labels of late stand among what the combiner sees, for
    streams where one label follows another: in `play`, `progressive_fit` and river's faces, which speak of
    the next row of the stream. `predict` and `decision_function` are for any rows, and leave the labels of
    late out.

    Rows of more than 1000 features have linear experts alone. With more than two classes, each has
    an equal part of the memory, and experts of its own: a round takes as many times longer. Row by row, a
    round takes a millisecond and more; batches are five to ten times faster.

    Guarantee: with N experts, the combiner among them, the loss of the vote over T rounds exceeds that of the
    best one by at most 2 sqrt(T log(N) / 2) + sqrt(log(N) / 8), whatever the stream (004 Theorem 8.7 has a
    larger constant, for weights that start anew in periods). The loss of a round is the weight of those that
    were wrong, at least half in a mistake. An expert that has ended, or has not begun, says what the combiner
    says. `certify` reports it, for two classes and the trace of `progressive_fit` from the first row on. With
    more classes it holds for each of them against the rest: `regret_` is the largest, `regret_bound_` what
    bounds it.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, chapter 8, for the weights. Cesa-Bianchi,
    Lugosi: Prediction, Learning, and Games, Theorem 2.3, for their rate.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import BudgetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BudgetClassifier(memory="4MB", random_state=0)
    >>> trace = model.progressive_fit(X, y % 2)
    >>> print(f"{trace.mistakes.mean():.2f}")
    0.03
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "memory": [Integral, str],
        "random_state": ["random_state"],
    }
    _plan: ClassVar[Plan] = Plan()

    _learned_names: ClassVar[frozenset[str]] = OnlineClassifier._learned_names | {"sigmoids_"}

    sigmoids_: Floats
    _learners: Sequence[Portfolio]

    def __init__(self, memory: int | str = "16MB", random_state: Any = None) -> None:
        self.memory = memory
        self.random_state = random_state

    def _validate_params(self) -> None:
        super()._validate_params()
        parse_bytes(self.memory)

    def _make(self, X: Any, outputs: int) -> Any:
        self.sigmoids_ = sigmoids(1)
        share, generators = self._share(outputs), self._generators(outputs)
        with self._fitting(outputs):
            return [Portfolio(X.shape[1], X.dtype, share, generator, self._plan) for generator in generators]

    def _share(self, outputs: int) -> int:
        return parse_bytes(self.memory) // outputs - self.sigmoids_.nbytes

    @contextmanager
    def _fitting(self, outputs: int) -> Iterator[None]:
        """Say how much memory would be enough, where it is not."""
        try:
            yield
        except TooLittleMemoryError as error:
            enough = outputs * (error.needed + self.sigmoids_.nbytes)
            hint = ", or hash the features (FeatureHasher, of scikit-learn or river)" if error.d > 100 else ""
            raise ValueError(
                f"memory must be at least {enough:,} bytes for {max(outputs, 2)} classes and rows of "
                f"{error.d:,} features; it is {parse_bytes(self.memory):,}. Give more{hint}"
            ) from None

    def _continue_with_copies(self) -> None:
        super()._continue_with_copies()
        self.sigmoids_ = self.sigmoids_.copy()

    def _new_hypothesis(self, generator: np.random.Generator) -> Portfolio:
        outputs = max(len(self._learners) + 1, 3)
        one, share = self._learners[0], self._share(outputs)
        with self._fitting(outputs):
            for portfolio in self._learners:
                portfolio.shrink(min(portfolio.memory, share))
            return Portfolio(one.d, one.row.dtype, share, generator, self._plan)

    def _mirror(self, hypothesis: Hypothesis, generator: np.random.Generator) -> Portfolio:
        assert isinstance(hypothesis, Portfolio)
        with self._fitting(3):
            hypothesis.shrink(min(hypothesis.memory, self._share(3)))
        return hypothesis.mirrored(generator)

    def _next_margins(self, X: Any) -> NDArray[np.float64]:
        return np.array([portfolio.decide(X, next_one=True) for portfolio in self._learners])

    def _add_features(self, d: int) -> None:
        with self._fitting(len(self._learners)):
            super()._add_features(d)

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        for start in range(0, len(batch.codes), AT_ONCE):
            yield batch.part(slice(start, start + AT_ONCE))

    def _observe(self, batch: Batch, start: int) -> None:
        assert batch.margins is not None
        # One sigmoid for all classes, so that the most probable class is the one predicted.
        calibrate(self.sigmoids_[0], batch.margins.T.ravel(), np.stack(batch.signs, axis=1).ravel())

    def _check_learned(self, found: State, hypotheses: Sequence[object]) -> None:
        require(sound(found["sigmoids_"], 1), "sigmoids should be finite numbers, with a curvature")

    def play(self, x: Rows, y: Any, classes: ArrayLike | None = None) -> float | NDArray[np.float64]:
        if not self.__sklearn_is_fitted__():
            return super().play(x, y, classes)  # which comes back here, with a model
        with defer_interrupts():
            margins = super().play(x, y, classes)
            signs = np.where(np.arange(max(2, len(self._learners))) == self._codes[y], 1.0, -1.0)
            told = np.atleast_1d(np.asarray(margins, np.float64))
            calibrate(self.sigmoids_[0], told, signs if len(told) > 1 else signs[1:])
        return margins

    play.__doc__ = OnlineClassifier.play.__doc__

    def _open_batch(self, *args: Any, **options: Any) -> Any:
        # Margins are always wanted: the sigmoids learn from them
        return super()._open_batch(*args, **options | {"trace": True})

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[Portfolio]:
        return [portfolio_of(state, found["n_features_in_"], dtype, self._plan) for state in states]

    def predict_proba(self, X: Rows) -> NDArray[np.float64]:
        """The probability of each class for each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        margins = self.decision_function(X)
        odds = log_odds(self.sigmoids_[0], margins.ravel()).reshape(margins.shape)
        if margins.ndim == 1:  # what is predicted is the more probable one
            odds = np.where(margins > 0.0, np.maximum(odds, 1e-9), np.minimum(odds, 0.0))
        return probabilities(odds)

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        return super().nbytes_ + self.sigmoids_.nbytes

    @property
    def experts_(self) -> list[dict[str, Any]]:
        """What is inside: the combiner, and every expert of every class."""
        told = []
        for output, portfolio in enumerate(self._fitted()):
            assert isinstance(portfolio, Portfolio)
            label = self.classes_[1 if len(self._learners) == 1 else output]
            label = label.item() if isinstance(label, np.generic) else label
            shares = portfolio.weights.weights_
            here = [True, *(expert.learner is not None for expert in portfolio.experts)]
            shares = np.where(here, shares, 0.0)
            shares[0] = 1.0 - shares[1:].sum()  # who is not there says what the combiner says
            shares = shares.tolist()
            told.append(
                {
                    "class": label,
                    "name": "combiner",
                    "error": float(portfolio.weights.expert_losses_[0]) / max(portfolio.seen, 1),
                    "share": shares[0],
                    "supports": 0,
                    "bytes": int(portfolio.combiner.nbytes),
                    "active": True,
                }
            )
            told += [
                {
                    "class": label,
                    "name": expert.name,
                    "error": expert.mistakes / expert.rounds if expert.rounds else float("nan"),
                    "share": share,
                    "supports": expert.supports,
                    "bytes": expert.nbytes,
                    "active": expert.learner is not None,
                }
                for expert, share in zip(portfolio.experts, shares[1:], strict=True)
            ]
        return told

    @property
    def regret_(self) -> float:
        """Loss of the vote less that of the best expert; with more than two classes, the largest of them."""
        return max(
            portfolio.weights.regret_ for portfolio in self._fitted() if isinstance(portfolio, Portfolio)
        )

    @property
    def regret_bound_(self) -> float:
        """What the regret cannot exceed."""
        portfolios = [portfolio for portfolio in self._fitted() if isinstance(portfolio, Portfolio)]
        seen = max(portfolio.seen for portfolio in portfolios)  # a class that came late has seen less
        return bounds.exponential_weights_anytime(portfolios[0].weights.n_experts_, seen)
