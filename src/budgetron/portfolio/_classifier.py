"""`BudgetClassifier`: the learner to use if nothing is known about the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike

from budgetron import bounds
from budgetron._base.batches import Batch
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.protocol import Hypothesis
from budgetron._base.sizes import MemoryTooSmallError, Prepare, as_it_is, with_params
from budgetron._base.theorems import DeclaredTheorem, ExpertsTheorem
from budgetron._core.calibration import calibrate, log_odds, sigmoids, sound
from budgetron._util.blocks import row_blocks
from budgetron._util.checks import State, require
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.types import Floats, Label, Matrix, Row, Rows
from budgetron._util.units import parse_bytes
from budgetron.calibration import probabilities
from budgetron.portfolio._experts import Plan
from budgetron.portfolio._pool import TooLittleMemoryError
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._state import portfolio_of

__all__ = ["BudgetClassifier", "ExpertSummary"]

# Rows that all experts learn before an interrupt takes effect.
ROWS_BETWEEN_INTERRUPTS = 256

# An entry of `experts_`. This form of declaration allows the key "class", which is a reserved word.
ExpertSummary = TypedDict(
    "ExpertSummary",
    {
        "class": Label,
        "name": str,
        "error": float,
        "share": float,
        "supports": int,
        "bytes": int,
        "active": bool,
    },
)


class BudgetClassifier(OnlineClassifier):
    """A classifier with one parameter, its memory.

    Linear and kernel experts of several kinds and widths learn side by side, on raw and on standardised
    rows. A second-order learner combines them. Exponential weights guarantee that the prediction is nearly
    as good as that of the best expert. Memory is reassigned to the experts that make fewer mistakes.

    Parameters
    ----------
    memory : int or str, default="16MB"
        The largest number of bytes that the model keeps, from the first round on. "64kB", "16MB" and "1GB"
        count in units of 1024. More memory means more supports, up to 1200 supports for the last second-order
        expert of each class. This usually gives fewer mistakes, and takes more time per round. Classes share
        the memory. Wider rows need more memory for kernel experts: with less than about 100 kB per class
        there are few kernel experts, or none (see `experts_`).
    random_state : int, RandomState or None, default=None
        Draws the sample of rows that shows whether the scale of the stream has changed.

    Attributes
    ----------
    experts_ : list of dict
        For each expert its name, its error rate in the rounds that it played, its share of the vote,
        supports, bytes, and whether it is active.

    Notes
    -----
    The experts are AROW, on raw and on standardised rows; two linear passive-aggressive learners; kernel PA-I
    with removal of the oldest support, at two widths; and `SecondOrderProjectron` at four widths on raw rows
    and four on standardised rows, or as many of these as can have 60 supports each.

    Kernel experts start after 64 rows, or earlier if 64 rows would take much of the memory. A width w stands
    for gamma = w / m, where m is the median squared distance between rows: a larger w is a narrower kernel.
    After 250, 500 and 1000 rounds, the half of the second-order experts with more mistakes is stopped, until
    one is left. The others may use the memory that becomes free. With M recent mistakes of the best expert,
    experts with at most M + sqrt(M) mistakes count as equally good. Of these, experts with moderate widths
    stay, because narrow kernels make few mistakes early but soon need more supports than they may have. The
    combiner transfers the weight of a stopped expert to the first one that stays. The last second-order
    expert may have 800 supports if the memory is 16 MB. This limit is proportional to the square root of the
    memory, but at least 400 and at most 1200, because the time of a round grows with the square of the number
    of supports. From 2000 rounds on, when no expert is stopped any more, an expert that is not the best
    starts again if the median distance has changed by a factor of 4.

    The combiner also uses recent labels, for streams where a label depends on earlier labels. They are used
    in `play`, in `progressive_fit` and in the river adapters, which predict the next row of the stream.
    `predict` and `decision_function` accept any rows, not only the next one, and do not use recent labels.

    With more than 1000 features, only linear experts are used. With more than two classes, each class has an
    equal part of the memory and its own experts, and the time per round is multiplied by the number of
    classes. A single row takes one to two milliseconds; in batches, a row takes 100 to 500 microseconds.

    Guarantee: with N experts, including the combiner, the loss of the vote over T rounds exceeds that of the
    best expert by at most 2 sqrt(T log(N) / 2) + sqrt(log(N) / 8), for any stream. (Mohri et al., Theorem
    8.7, has a larger constant, for weights that are reset in periods.) The loss of a round is the weight of
    the experts that were wrong, which is at least 1/2 in a mistake. An inactive expert votes as the combiner
    does. `certify` reports the bound, for two classes and the trace of `progressive_fit` from the first row
    on. With more classes it holds for each class against the rest: `regret_` is the largest, and
    `regret_bound_` its bound.

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

    def __init__(self, memory: int | str = "16MB", random_state: int | RandomState | None = None) -> None:
        self.memory = memory
        self.random_state = random_state

    def _validate_params(self) -> None:
        super()._validate_params()
        parse_bytes(self.memory)

    # ------------------------------------------------------------------ hypotheses

    def _make(self, X: Matrix, outputs: int) -> list[Portfolio]:
        self.sigmoids_ = sigmoids(1)
        share, generators = self._share(outputs), self._generators(outputs)
        with self._explain_memory(outputs):
            return [Portfolio(X.shape[1], X.dtype, share, generator, self._plan) for generator in generators]

    def _share(self, outputs: int) -> int:
        """Bytes of one portfolio if there are this many."""
        return parse_bytes(self.memory) // outputs - self.sigmoids_.nbytes

    @contextmanager
    def _explain_memory(self, outputs: int) -> Iterator[None]:
        """If the memory is too small, say how much is enough."""
        try:
            yield
        except TooLittleMemoryError as error:
            enough = outputs * (error.needed + self.sigmoids_.nbytes)
            hint = ", or hash the features (FeatureHasher, of scikit-learn or river)" if error.d > 100 else ""
            raise MemoryTooSmallError(
                f"memory must be at least {enough:,} bytes for {max(outputs, 2)} classes and rows of "
                f"{error.d:,} features; it is {parse_bytes(self.memory):,}. Use more{hint}"
            ) from None

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        with_params(self, random_state=0)._make(X, outputs)  # raises an error if the memory is too small
        return parse_bytes(self.memory)

    def _new_hypothesis(self, generator: np.random.Generator) -> Portfolio:
        outputs = max(len(self._learners) + 1, 3)
        one, share = self._learners[0], self._share(outputs)
        with self._explain_memory(outputs):
            for portfolio in self._learners:
                portfolio.shrink(min(portfolio.memory, share))
            return Portfolio(one.n_features, one.dtype, share, generator, self._plan)

    def _mirror(self, hypothesis: Hypothesis, generator: np.random.Generator) -> Portfolio:
        assert isinstance(hypothesis, Portfolio)
        with self._explain_memory(3):
            hypothesis.shrink(min(hypothesis.memory, self._share(3)))
        return hypothesis.mirrored(generator)

    def _add_features(self, d: int) -> None:
        with self._explain_memory(len(self._learners)):
            super()._add_features(d)

    def _continue_with_copies(self) -> None:
        super()._continue_with_copies()
        self.sigmoids_ = self.sigmoids_.copy()

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[Portfolio]:
        return [portfolio_of(state, found["n_features_in_"], dtype, self._plan) for state in states]

    def _check_learned(self, found: State, hypotheses: Sequence[object]) -> None:
        require(sound(found["sigmoids_"], 1), "sigmoids should be finite numbers, with a curvature")

    def _fitted(self) -> Sequence[Portfolio]:
        super()._fitted()
        return self._learners

    # ------------------------------------------------------------------ rounds

    def _open_batch(self, *args: Any, **options: Any) -> Batch:
        # Margins are always recorded: the sigmoid learns from them.
        return super()._open_batch(*args, **options | {"trace": True})

    def _parts(self, batch: Batch) -> Iterator[Batch]:
        for rows in row_blocks(len(batch.codes), ROWS_BETWEEN_INTERRUPTS):
            yield batch.part(rows)

    def _observe(self, batch: Batch, start: int) -> None:
        assert batch.margins is not None
        # One sigmoid for all classes, so that the most probable class is the one predicted.
        calibrate(self.sigmoids_[0], batch.margins.T.ravel(), np.stack(batch.labels, axis=1).ravel())

    def play(self, x: Row, y: Label, classes: ArrayLike | None = None) -> float | Floats:
        if not self.__sklearn_is_fitted__():
            return super().play(x, y, classes)  # which calls this method again, with a fitted model
        with defer_interrupts():
            margins = super().play(x, y, classes)
            signs = np.where(np.arange(max(2, len(self._learners))) == self._codes[y], 1.0, -1.0)
            values = np.atleast_1d(np.asarray(margins, np.float64))
            calibrate(self.sigmoids_[0], values, signs if len(values) > 1 else signs[1:])
        return margins

    play.__doc__ = OnlineClassifier.play.__doc__

    # ------------------------------------------------------------------ prediction

    def _next_margins(self, X: Matrix) -> Floats:
        return np.array([portfolio.decide(X, next_row=True) for portfolio in self._learners])

    def predict_proba(self, X: Rows) -> Floats:
        """Return the probability of each class for each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self.probabilities_from_margins(self.decision_function(X))

    def probabilities_from_margins(self, margins: Floats) -> Floats:
        """Return the probability of each class, given margins of shape (n,) or (n, n_classes)."""
        odds = log_odds(self.sigmoids_[0], margins.ravel()).reshape(margins.shape)
        if margins.ndim == 1:  # so that the predicted class is the more probable one
            odds = np.where(margins > 0.0, np.maximum(odds, 1e-9), np.minimum(odds, 0.0))
        return probabilities(odds)

    # ------------------------------------------------------------------ what was learned

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        return super().nbytes_ + self.sigmoids_.nbytes

    @property
    def experts_(self) -> list[ExpertSummary]:
        """The combiner and every expert, for each class."""
        summaries = []
        for output, portfolio in enumerate(self._fitted()):
            label = self.classes_[1 if len(self._learners) == 1 else output]
            summaries += _summaries(portfolio, label.item() if isinstance(label, np.generic) else label)
        return summaries

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        weights = self._learners[0].combiner.weights
        best = int(weights.expert_losses_.argmin())
        losses = float(weights.expert_losses_[best])
        bound, name = losses + self.regret_bound_, self.experts_[best]["name"]
        return [ExpertsTheorem("exponential_weights_anytime", float(weights.loss_), bound, losses, name)]

    @property
    def regret_(self) -> float:
        """Loss of the vote minus that of the best expert; with more than two classes, the largest of any."""
        return max(portfolio.combiner.weights.regret_ for portfolio in self._fitted())

    @property
    def regret_bound_(self) -> float:
        """Upper bound of the regret."""
        portfolios = self._fitted()
        seen = max(portfolio.pool.seen for portfolio in portfolios)  # fewer for a class that was added later
        return bounds.exponential_weights_anytime(portfolios[0].combiner.weights.n_experts_, seen)


def _summaries(portfolio: Portfolio, label: Label) -> list[ExpertSummary]:
    """Return what `experts_` lists for one class."""
    combiner, experts = portfolio.combiner, portfolio.pool.experts
    shares = combiner.weights.weights_
    shares = np.where([True, *(expert.active for expert in experts)], shares, 0.0)
    shares[0] = 1.0 - shares[1:].sum()  # inactive experts vote as the combiner does
    first: ExpertSummary = {
        "class": label,
        "name": "combiner",
        "error": float(combiner.weights.expert_losses_[0]) / max(portfolio.pool.seen, 1),
        "share": float(shares[0]),
        "supports": 0,
        "bytes": combiner.rule.nbytes,
        "active": True,
    }
    others: list[ExpertSummary] = [
        {
            "class": label,
            "name": expert.name,
            "error": expert.error_rate,
            "share": share,
            "supports": expert.n_supports,
            "bytes": expert.nbytes,
            "active": expert.active,
        }
        for expert, share in zip(experts, shares[1:].tolist(), strict=True)
    ]
    return [first, *others]
