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
from budgetron._base.sizes import MemoryTooSmallError, Prepare, as_it_is, with_params
from budgetron._base.theorems import DeclaredTheorem, Run, SequenceTheorem, VoteTheorem, VotingExpert
from budgetron._base.unmergeable import UnmergeableClassifier
from budgetron._base.weighted_classifier import CLASS_WEIGHT, WeightedClassifier
from budgetron._core.calibration import calibrate, log_odds, sigmoids, sound
from budgetron._util.blocks import row_blocks
from budgetron._util.checks import State, require
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.threads import number_of_threads, one_thread
from budgetron._util.types import Codes, Floats, Label, Matrix, Row, Rows
from budgetron._util.units import parse_bytes
from budgetron.calibration import probabilities
from budgetron.portfolio._expert_runs import THEOREMS_OF_LOSSES, voting_experts
from budgetron.portfolio._experts import Plan
from budgetron.portfolio._pool import TooLittleMemoryError
from budgetron.portfolio._portfolio import Portfolio
from budgetron.portfolio._state import portfolio_of

__all__ = ["BudgetClassifier", "ExpertSummary"]

# Rows that all experts learn before an interrupt takes effect.
ROWS_BETWEEN_INTERRUPTS = 256


class ExpertSummary(TypedDict):
    """An entry of `experts_`."""

    name: str
    error: float
    share: float
    supports: int
    bytes: int
    active: bool


class BudgetClassifier(WeightedClassifier, UnmergeableClassifier):
    """A classifier with one parameter to choose, its memory.

    Linear and kernel experts of several kinds and widths learn the same stream, on raw rows, on standardised
    rows, and on features with learned scales. Second-order learners combine their scores. By fixed share, a
    weighted vote, the prediction is nearly as good as that of the best sequence of experts, also when the
    best expert changes. Memory is reassigned to the experts that make fewer mistakes.

    Parameters
    ----------
    memory : int or str, default="16MB"
        The largest number of bytes that the model keeps, from the first round on. "64kB", "16MB" and "1GB"
        count in units of 1024. More memory means more supports, up to 1200 supports for one second-order
        expert. This usually gives fewer mistakes, and takes more time per round. Kernel experts need more
        memory for wider rows: with less than about 100 kB there are few kernel experts, or none (see
        `experts_`).
    class_weight : dict, default=None
        The weight of each class, 1 for classes that are not named. The losses of a row, those of all experts
        and combiners, are multiplied by the weight of its class and its `sample_weight`. A row of weight 0 is
        predicted and not learned.
    random_state : int, RandomState or None, default=None
        Draws the sample of rows whose distances give the kernel widths of experts that start late.
    n_jobs : int, default=None
        Threads in which experts learn a batch. None means 1, -1 all cores. The result does not depend on it.

    Attributes
    ----------
    experts_ : list of dict
        For each combiner and expert: its name, its error rate in the rounds since it started, its weight in
        the vote ("share"), its number of supports, its bytes, and whether it is active.
    feature_importances_ : ndarray of shape (n_features,)
        The importance of each feature, by the learned scales.

    Notes
    -----
    The experts are: two linear passive-aggressive learners and two logistic regressions by gradient steps;
    AROW on standardised and on raw rows, and one that forgets; kernel PA-I with removal of the oldest
    support, at two widths; second-order kernel learners with the logistic and the hinge loss at several
    widths, on raw and on standardised rows; and second-order learners on features with learned scales (see
    `budgetron.relevance`). All have one output for each class, if there are more than two, with the same
    supports for all classes.

    Kernel experts start after 16 rows. They start again, with all rows so far, after 64 rows, or after fewer
    rows if 64 would take more than a sixteenth of the memory. A width w stands for gamma = w / m, where m is
    the median squared distance between these first rows: a larger w is a narrower kernel.

    Reviews take place after 256, 512, 1024, ... rounds. They compare the second-order kernel experts without
    learned scales, and from 4096 rounds on all second-order kernel experts. Let a be the number of rounds in
    which only expert i made a mistake, and b the number in which only the best one did: expert i is worse by
    (a - b) / sqrt(a + b) standard deviations. It ends if this is more than 3. At most 5, 3 and 2 of the
    experts without learned scales stay after the first three reviews, then one. While several stay, one of
    each loss is among them, unless it is worse by more than 3 standard deviations. From 1024 rounds on, the
    best second-order expert may double its supports from one review to the next, up to 800 if the memory is
    16 MB. This limit is proportional to the square root of the memory, but at least 400 and at most 1200. The
    others grow to at most 350 supports, and a former best one that is worse by more than 2 standard
    deviations shrinks to this number. They end if the best one needs their memory. From 2048 rounds on, each
    review starts the best of the ended experts again, if there is memory for it.

    Feature scales are learned from a window of up to 2048 recent rows, at the reviews, and 128, 384 and 1024
    rounds after a change. Rows from before the change are not used. The window takes at most a sixteenth of
    the memory. If this is too small for 256 rows, there is no window: no scales are learned, and no expert
    starts again. A change is an increase of the error rate of the best second-order expert. The test for it
    runs every 64 rounds, with a probability of a false alarm of about 0.0005. New experts first learn recent
    rows of the window. After a trial of 512 rounds, or an eighth of all rounds so far if this is longer, one
    of the new and the old expert ends: the new one if it is worse by more than 0.5 standard deviations, or by
    more than 1 if its loss is not that of the old one. If only one of them has learned scales, the new one
    ends if it is worse by more than 1 standard deviation, and the old one stays. If both have, the new one
    may have as many supports as the old one, unless the stream has changed, and gets its memory if it wins.

    The combiners are linear second-order learners on the experts' scores and on recent labels, for streams
    where a label depends on earlier labels. Recent labels are used in `play`, in `progressive_fit` and in the
    river adapters, which predict the next row of the stream. `predict` and `decision_function` accept any
    rows, not only the next one, and do not use recent labels.

    With more than 1000 features, only linear experts are used.

    Guarantee: fixed share over N combiners and experts, with the rates eta = 0.1 and alpha = 0.0003, has a
    loss of at most that of the best sequence of them with k switches, plus
    ((k + 1) ln N + k ln(1/alpha) + T alpha) / eta + eta T / 8 after T rounds, up to terms of second order in
    alpha. The loss of a round is the weight of those that were wrong. It is at least 1/2 in a mistake, for
    any number of classes, so that there are at most twice as many mistakes. An inactive expert votes as the
    first combiner does. If rows have weights w, losses are multiplied by w, and eta T / 8 is the sum of
    eta w^2 / 8. `certify` evaluates this; with ``progressive_fit(..., ledger=True)`` for every k. With
    ``theorem="second_order"``, "second_order_rows" or "second_order_logistic" it bounds the loss by that of a
    linear function or a function in the space of an expert's kernel, through the bound of that expert.

    References
    ----------
    Herbster, Warmuth: Tracking the Best Expert (1998). Cesa-Bianchi, Lugosi: Prediction, Learning, and Games
    (2006), section 5.2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import BudgetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BudgetClassifier(memory="4MB", random_state=0)
    >>> trace = model.progressive_fit(X, y % 2)
    >>> print(f"{trace.mistakes.mean():.2f}")
    0.02
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CLASS_WEIGHT | {
        "memory": [Integral, str],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
    }
    _free_parameters: ClassVar[frozenset[str]] = frozenset({"n_jobs"})
    _plan: ClassVar[Plan] = Plan()
    _joint: ClassVar[bool] = True
    _learned_names: ClassVar[frozenset[str]] = OnlineClassifier._learned_names | {"sigmoids_"}

    sigmoids_: Floats
    _learners: Sequence[Portfolio]

    def __init__(
        self,
        memory: int | str = "16MB",
        random_state: int | RandomState | None = None,
        *,
        class_weight: dict[Label, float] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.memory = memory
        self.random_state = random_state
        self.class_weight = class_weight
        self.n_jobs = n_jobs

    def _validate_params(self) -> None:
        super()._validate_params()
        parse_bytes(self.memory)

    # ------------------------------------------------------------------ hypotheses

    def _make(self, X: Matrix, outputs: int) -> list[Portfolio]:
        self.sigmoids_ = sigmoids(1)
        generator = self._generators(1)[0]
        with self._explain_memory(outputs):
            return [Portfolio(X.shape[1], X.dtype, self._room(), outputs, generator, self._plan)]

    def _room(self) -> int:
        """Bytes of the portfolio."""
        return parse_bytes(self.memory) - self.sigmoids_.nbytes

    @contextmanager
    def _explain_memory(self, outputs: int) -> Iterator[None]:
        """If the memory is too small, say how much is enough."""
        try:
            yield
        except TooLittleMemoryError as error:
            enough = error.needed + self.sigmoids_.nbytes
            hint = ", or hash the features (FeatureHasher, of scikit-learn or river)" if error.d > 100 else ""
            raise MemoryTooSmallError(
                f"memory must be at least {enough:,} bytes for {max(outputs, 2)} classes and rows of "
                f"{error.d:,} features; it is {parse_bytes(self.memory):,}. Use more{hint}",
                enough,
            ) from None

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        with_params(self, random_state=0)._make(X, outputs)  # raises an error if the memory is too small
        return parse_bytes(self.memory)

    def _admit(self, label: Label) -> None:
        with self._explain_memory(self._n_outputs + 1):
            super()._admit(label)

    def _add_features(self, d: int) -> None:
        with self._explain_memory(self._n_outputs):
            super()._add_features(d)

    def _continue_with_copies(self) -> None:
        super()._continue_with_copies()
        self.sigmoids_ = self.sigmoids_.copy()

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[Portfolio]:
        classes = len(found["classes_"])
        outputs = classes if classes > 2 else 1
        return [portfolio_of(state, found["n_features_in_"], dtype, outputs, self._plan) for state in states]

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

    def _learn_output(self, hypothesis: Portfolio, batch: Batch, i: int, **options: object) -> None:
        super()._learn_output(hypothesis, batch, i, threads=number_of_threads(self.n_jobs), **options)

    def _observe(self, batch: Batch, start: int) -> None:
        assert batch.margins is not None
        # One sigmoid for all classes, so that the most probable class is the one predicted.
        calibrate(self.sigmoids_[0], batch.margins.T.ravel(), self._signs(batch.codes).ravel())

    def _signs(self, codes: Codes) -> Floats:
        """Return 1 for the class of each row and -1 for the others; with two classes, those of the second."""
        places = np.arange(self._n_outputs) if self._n_outputs > 1 else np.ones(1)
        return np.where(codes[:, None] == places, 1.0, -1.0)

    def play(self, x: Row, y: Label, classes: ArrayLike | None = None) -> float | Floats:
        if not self.__sklearn_is_fitted__():
            return super().play(x, y, classes)  # which calls this method again, with a fitted model
        single = self._play_single(x, y) if classes is None else None
        if single is not None:
            return single
        with defer_interrupts(), one_thread():
            margins = super().play(x, y, classes)
            values = np.atleast_1d(np.asarray(margins, np.float64))
            calibrate(self.sigmoids_[0], values, self._signs(np.array([self._codes[y]]))[0])
        return margins

    play.__doc__ = OnlineClassifier.play.__doc__

    def _play_single(self, x: Row, y: Label) -> float | Floats | None:
        """Play an ordinary round in compiled code; return None, and change nothing, if it is not ordinary."""
        try:
            code = self._codes[y]
        except (KeyError, TypeError):  # an unknown label, for which `play` has an error message
            return None
        label = float(code) if len(self._codes) > 2 else 1.0 if code else -1.0
        return self._learners[0].play_single(x, label, self._importance(y), self.sigmoids_[0])

    # ------------------------------------------------------------------ prediction

    def _next_margins(self, X: Matrix) -> Floats:
        return np.atleast_2d(self._learners[0].decide(X, next_row=True).T)

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
        """The combiners and every expert."""
        portfolio = self._fitted()[0]
        combination, pool = portfolio.combination, portfolio.pool
        shares, losses = combination.shares.tolist(), combination.losses.tolist()
        names = ["combiner", "combiner that forgets"][: combination.n_combiners]
        summaries: list[ExpertSummary] = [
            {
                "name": name,
                "error": losses[i] / max(pool.seen, 1),
                "share": shares[i],
                "supports": 0,
                "bytes": (combination.weights[i].nbytes + combination.sigma[i].nbytes),
                "active": True,
            }
            for i, name in enumerate(names)
        ]
        first_order = pool.first_order_experts.weights[0].nbytes
        for expert, share in zip(pool.experts, shares[len(names) :], strict=True):
            summaries.append(
                {
                    "name": expert.design.name,
                    "error": expert.error_rate,
                    "share": share,
                    "supports": expert.n_supports if expert.design.has_kernel else 0,
                    "bytes": first_order if expert.design.kind == "first order" else expert.nbytes,
                    "active": expert.active,
                }
            )
        return summaries

    @property
    def feature_importances_(self) -> Floats:
        """The importance of each feature, by the scales that were learned last.

        Importances are proportional to the squared scales of the standardised features, and sum to 1. Before
        scales are learned, they are equal.
        """
        portfolio = self._fitted()[0]
        scales = portfolio.pool.scales
        squares = np.ones(portfolio.n_features) if not len(scales) else scales**2
        importances: Floats = squares / squares.sum()
        return importances

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        names = [expert["name"] for expert in self.experts_]
        vote = SequenceTheorem("fixed_share", self._losses_in, self._sequence_regret, names)
        of_experts = [name for names in THEOREMS_OF_LOSSES.values() for name in names]
        return [vote, *(VoteTheorem(name, vote, self._voting_experts) for name in of_experts)]

    def _voting_experts(self, run: Run, name: str) -> list[VotingExpert]:
        return voting_experts(self._learners[0], run, name)

    def _losses_in(self, run: Run) -> tuple[float, Floats]:
        """Return the loss of the vote, and those of the combiners and experts in each round, weighted."""
        if run.trace.ledger is None and self.class_weight is None:
            totals = self._learners[0].combination.losses
            return float(totals[-1]), totals[None, :-1]
        weights = run.ledger("weight")
        return float(weights @ run.ledger("loss")), weights[:, None] * run.ledger("expert_losses")

    def _sequence_regret(self, run: Run, switches: int, check: bounds.Check) -> float:
        bound = self._regret_bound(switches, check)
        # With weights w of the rows, losses lie between 0 and w, and eta T / 8 is the sum of eta w^2 / 8.
        squares = (
            0.0 if run.trace.ledger is None else float(np.square(run.ledger("weight")).sum() - len(run.y))
        )
        return bound + self._learners[0].combination.eta / 8 * squares

    def _regret_bound(self, switches: int, check: bounds.Check = True) -> float:
        portfolio = self._fitted()[0]
        combination = portfolio.combination
        voters, rounds = combination.n_combiners + combination.n_experts, max(portfolio.pool.seen, 1)
        # The bound needs alpha > 0. Without sharing, a tiny alpha gives its limit.
        alpha = max(combination.alpha, 1e-300)
        return bounds.fixed_share(voters, rounds, switches, combination.eta, alpha, check=check)

    @property
    def regret_(self) -> float:
        """Loss of the vote minus that of the best combiner or expert."""
        losses = self._fitted()[0].combination.losses
        return float(losses[-1] - losses[:-1].min())

    @property
    def regret_bound_(self) -> float:
        """Upper bound of `regret_`, if all rows have the weight 1."""
        return self._regret_bound(0)
