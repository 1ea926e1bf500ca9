"""The contract of a hypothesis: what every function that learns can do, whatever it is made of.

The compiled kernel learner (`budgetron._core.rounds.Learner`), the compiled linear rule
(`budgetron._core.linear.LinearRule`) and the portfolio (`budgetron.portfolio`) implement it. The base
estimators use nothing else.
"""

from __future__ import annotations

from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from budgetron._core.history import Average, Journal
from budgetron._util.checks import State
from budgetron._util.types import Floats, Ints, Matrix, Row

__all__ = ["Hypothesis", "HypothesisWithHistory", "JointHypothesis"]


class Hypothesis(Protocol):
    """A real-valued function f that learns from rows labelled -1 or +1.

    A joint hypothesis has a function for each class, if there are more than two. Its labels are the indices
    of the classes, and each f(x) below is an array with one number per class. A round is a mistake if the
    number of the right class is not above all others.
    """

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of the rows, float32 or float64."""

    @property
    def n_features(self) -> int:
        """Number of features of the rows."""

    @property
    def rounds(self) -> int:
        """Rounds played."""

    @property
    def mistakes(self) -> int:
        """Rounds with y f(x) <= 0."""

    @property
    def n_supports(self) -> int:
        """Number of stored rows."""

    @property
    def budget(self) -> int:
        """The largest number of stored rows after a round; 0 if there is no limit, or if none are stored."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays that outlive a call."""

    @property
    def ledger(self) -> tuple[str, ...]:
        """Names of the columns that `learn` fills in a ledger."""

    # ------------------------------------------------------------------ rounds

    def learn(
        self,
        X: Matrix,
        y: Floats,
        margins: Floats | None = ...,
        sizes: Ints | None = ...,
        ledger: Floats | None = ...,
        *,
        importances: Floats | None = ...,
    ) -> None:
        """Play one round per row, in order, and fill the arrays that are given.

        `margins` gets f(x) before the label is seen, `sizes` the stored rows after the round.
        """

    def play(self, x: Row, y: float, importance: float = ...) -> float | Floats:
        """Play one round; return f(x) before the label was seen. An error leaves f unchanged."""

    def open_round(self, x: Row) -> float | Floats:
        """Play the first half of a round: check the row and return f(x)."""

    def close_round(self, y: float, importance: float = ...) -> None:
        """Play the second half of the round that was opened: learn from the label."""

    def decide(self, X: Matrix) -> Floats:
        """Return f(x) for each row."""

    def is_safe(self, square: float) -> bool:
        """Return whether rows of at most this squared norm cannot cause an overflow in `learn`."""

    def may_fail(self) -> bool:
        """Return whether closing the round that was opened might fail."""

    # ------------------------------------------------------------------ state and changes

    def state(self) -> State:
        """Return all that the hypothesis must remember: numbers, arrays, and tables of these."""

    def restore_from(self, copy: Self, /) -> None:
        """Return to the state of a copy that was made earlier; the copy must not be used afterwards."""

    def set_round_count(self, rounds: int) -> None:
        """Continue as if this many rounds had been played without an update."""

    def add_features(self, d: int) -> None:
        """Take rows of d features from now on; the new features were 0 in all rows so far."""

    def truncate(self, budget: int) -> None:
        """Keep at most `budget` stored rows from now on; the oldest stay.

        Raises `ValueError` if f cannot be restricted to fewer stored rows exactly.
        """

    def mirrored(self, generator: np.random.Generator) -> Self | None:
        """Return -f, the hypothesis that opposite labels would have made, or None if it cannot be known."""


class JointHypothesis(Hypothesis, Protocol):
    """A hypothesis that can have a function for each class."""

    @property
    def n_outputs(self) -> int:
        """Number of functions."""

    def add_output(self, place: int) -> None:
        """Add a function that is 0 at this place; the one of two classes first becomes one for each."""


class HypothesisWithHistory(Hypothesis, Protocol):
    """A hypothesis that can keep the average of its past, or all of its past."""

    @property
    def n_outputs(self) -> int:
        """Number of functions."""

    @property
    def average(self) -> Average | None:
        """The average of the hypotheses of all rounds, if it is kept."""

    @property
    def journal(self) -> Journal | None:
        """The changes of the hypothesis, if they are kept."""

    def keep_average(self) -> None:
        """Keep the average of the hypotheses from the first round on."""

    def keep_journal(self) -> None:
        """Keep every hypothesis from the first round on."""

    def decide_average(self, X: Matrix) -> Floats:
        """Return the value of the average at each row."""

    def basis(self, X: Matrix) -> Matrix:
        """Return the values that the journal's changes multiply, one column per place, for each row."""

    def columns(self, places: Ints) -> NDArray[np.intp] | Ints:
        """Return the column of `basis` for each place of the journal."""
