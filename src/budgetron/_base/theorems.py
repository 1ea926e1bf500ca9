"""How a learner declares its theorems.

A learner's `_theorems` returns a list of the classes below, the default theorem first. `budgetron.certify`
evaluates them. A theorem compares a run of the learner with a competitor:

`FunctionTheorem`  the competitor is a function in the space of the learner's kernel
`WeightsTheorem`   the competitor is a weight vector, restricted by the theorem
`ImageTheorem`     the competitor is a vector of the coordinates of a second-order learner
`SequenceTheorem`  the competitor is the best sequence of the learner's own experts with a number of switches
`VoteTheorem`      the competitor is that of an expert's own theorem
`ClassesTheorem`   the competitor is a function for each of more than two classes
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from budgetron import bounds
from budgetron._base.margin_losses import LOSSES, logistic
from budgetron._base.trace import Trace
from budgetron._core.kernel import Kernel
from budgetron._util.types import Floats
from budgetron.bounds import Check

__all__ = [
    "ClassesTheorem",
    "DeclaredTheorem",
    "FunctionTheorem",
    "ImageTheorem",
    "Images",
    "LogisticSteps",
    "Run",
    "SequenceTheorem",
    "VoteTheorem",
    "VotingExpert",
    "WeightsTheorem",
    "perceptron_theorems",
]


@dataclass
class Run:
    """A stream, what the learner did on it, and what the competitor does on it.

    `X` has the rows in the space of the competitors: (1, x) if the learner has an `intercept`.
    `y` holds -1 and +1, or the indices of the classes if there are more than two. `radius` is the largest
    sqrt(k(x, x)). `margins` are y g(x) of the competitor g, `norm` is its norm (the largest, if it drifts)
    and `shift` the distance that it drifts in all. `loss` names the loss of the theorem in
    `margin_losses.LOSSES`.
    """

    trace: Trace
    X: Floats
    y: Floats
    kernel: Kernel
    radius: float
    norm: float = 0.0
    margins: Floats = field(default_factory=lambda: np.zeros(0))
    shift: float = 0.0
    competitor: str = ""
    expansion: tuple[Floats, Floats] | None = None
    loss: str = "hinge"
    intercept: bool = False

    @property
    def losses(self) -> float:
        """The sum of the competitor's losses."""
        return float(LOSSES[self.loss](self.margins).sum())

    def ledger(self, name: str) -> Floats:
        """Return a column of the ledger."""
        if self.trace.ledger is None:
            raise ValueError(
                "this theorem needs the ledger: make the trace with progressive_fit(..., ledger=True)"
            )
        return np.asarray(self.trace.ledger[name], np.float64)

    def ledger_sum(self, name: str) -> float:
        """Return the sum of a column of the ledger, without rounds that have no entry."""
        return float(np.nansum(self.ledger(name)))


@dataclass(frozen=True)
class FunctionTheorem:
    """A theorem that holds for every function g in the space of the learner's kernel.

    Parameters
    ----------
    name : str
        Its name in `bounds.THEOREMS`.
    bound : callable
        Returns the bound for a run with a competitor; it appends the assumptions to its second argument.
    norm_weight : float, optional
        The bound is smallest where norm_weight ||g||^2 + (sum of hinge losses of g) is. None if it has
        another form; then several competitors are tried.
    norm_limit : float
        The largest norm of a competitor.
    drifts : bool
        Whether the competitor may change from round to round.
    separates : bool
        Whether the competitor must separate the rows, so that the one with the largest margin is best.
    loss : {"hinge", "logistic", "squared"}
        The loss of the competitor.
    count : int, optional
        The bounded quantity. By default the mistakes of the trace.
    scope : str
        What to add to the source of the theorem, such as a scaling of the rows.
    """

    name: str
    bound: Callable[[Run, Check], float]
    norm_weight: float | None = None
    norm_limit: float = inf
    drifts: bool = False
    separates: bool = False
    loss: str = "hinge"
    count: int | None = None
    scope: str = ""


@dataclass(frozen=True)
class WeightsTheorem:
    """A theorem whose competitors are weight vectors, restricted in a way that only the learner knows.

    `bound` gets the run and a weight vector, or None for the best one. It stores the competitor in the run,
    and the assumptions in its third argument, and returns the bound.
    """

    name: str
    bound: Callable[[Run, Floats | None, Check], float]
    count: int | None = None


@dataclass(frozen=True)
class SequenceTheorem:
    """A theorem that compares the loss of a vote with that of a sequence of experts, one per round.

    It holds for any number of classes.

    Parameters
    ----------
    name : str
        Its name in `bounds.THEOREMS`.
    losses : callable
        Returns the loss of the vote in a run, and the losses of the experts, of shape (rounds, experts). If
        the run has no ledger, these are of shape (1, experts): the sums over all rounds.
    regret : callable
        Takes a run, a number of switches, and a list to append the assumptions to. Returns the bound of the
        regret against sequences with so many switches.
    experts : sequence of str
        The names of the experts.
    """

    name: str
    losses: Callable[[Run], tuple[float, Floats]]
    regret: Callable[[Run, int, Check], float]
    experts: Sequence[str]


@dataclass(frozen=True)
class LogisticSteps:
    """The steps of a second-order learner with the logistic loss, in the rounds that it learned.

    Attributes
    ----------
    before, after : ndarray of shape (n_learned,)
        The margins y f(x) before and after the step.
    slopes : ndarray of shape (n_learned,)
        g, minus the slope of the loss after the step.
    diagonal : (q, b, k), or None
        With a diagonal covariance: the sums over these rounds of c x^2, c x^2 w and c (x^2 . w^2), where c is
        g (1 - g) and w the mean after the step. Products are by coordinates, the last one is a number.
    """

    before: Floats
    after: Floats
    slopes: Floats
    diagonal: tuple[Floats, Floats, float] | None = None

    @property
    def curvatures(self) -> Floats:
        """The curvatures of the loss after the step, c = g (1 - g)."""
        return self.slopes * (1.0 - self.slopes)

    @property
    def gain(self) -> float:
        """See `bounds.second_order_logistic`."""
        losses = logistic(self.before) - logistic(self.after)
        return float(np.sum(losses - 0.5 * self.slopes * (self.after - self.before)))


@dataclass(frozen=True)
class Images:
    """The vectors that a second-order learner learned in a run.

    Attributes
    ----------
    rows : ndarray of shape (n_rounds, n)
        The coordinates of each row: of the linear part, then in a basis of the span of all supports.
    learned : ndarray of shape (n_rounds,), bool
        Whether each round was learned.
    gain : float
        See `bounds.second_order`.
    first : int
        The coordinates from here on belong to the supports.
    removed : ndarray of shape (n, any)
        For each exchange an orthonormal basis of the part of the span that it removed, side by side.
    diagonal : bool
        Whether the covariance is diagonal.
    dropped : ndarray of shape (n,)
        Its product with a competitor is `dropped` of `bounds.second_order`.
    supports, basis : ndarray of shape (s, d) and (s, n - first)
        The kernel values of a row with `supports`, times `basis`, are its last coordinates. `supports` is
        None for a linear learner.
    deltas : ndarray of shape (n_learned,), or empty
        The distances of the learned rows from the span, if `rows` are not their images.
    exchanges : int
    logistic : LogisticSteps or None
        The steps, if the learner has the logistic loss.
    """

    rows: Floats
    learned: NDArray[np.bool_]
    gain: float
    first: int
    removed: Floats
    diagonal: bool
    dropped: Floats
    supports: Floats | None
    basis: Floats
    deltas: Floats
    exchanges: int = 0
    logistic: LogisticSteps | None = None


@dataclass(frozen=True)
class ImageTheorem:
    """A theorem that compares a second-order learner with vectors of its coordinates.

    Parameters
    ----------
    name : {"second_order", "second_order_rows", "second_order_logistic"}
        Its name in `bounds.THEOREMS`.
    images : callable
        Takes a run, the rows that the competitor needs besides the supports (or none), and a list to append
        the assumptions to. Returns the images, or raises an error if they are not defined.
    r, prior : float
        The parameters of the learner.
    """

    name: str
    images: Callable[[Run, Floats, Check], Images]
    r: float
    prior: float


@dataclass(frozen=True)
class VotingExpert:
    """An expert of a vote that has a theorem of its own in some rounds.

    Attributes
    ----------
    name : str
    known : float
        Its losses in the other rounds.
    runs : list of (Run, ImageTheorem, int)
        What it learned from each start on, the theorem, and the number of rows at the beginning of the run
        that it learned before it took part in the vote.
    """

    name: str
    known: float
    runs: list[tuple[Run, ImageTheorem, int]]


@dataclass(frozen=True)
class VoteTheorem:
    """A bound on the loss of a vote: the bound on an expert's mistakes, plus the regret to that expert.

    Parameters
    ----------
    name : str
        The name of the expert's theorem in `bounds.THEOREMS`.
    vote : SequenceTheorem
        The theorem of the vote.
    experts : callable
        Takes a run of the vote, and the name. Returns the experts that have this theorem.
    """

    name: str
    vote: SequenceTheorem
    experts: Callable[[Run, str], list[VotingExpert]]


@dataclass(frozen=True)
class ClassesTheorem:
    """A theorem about more than two classes, with a competitor g_c for each class.

    Parameters
    ----------
    name : str
        Its name in `bounds.THEOREMS`.
    bound : callable
        As in `FunctionTheorem`. The square of the norm of the run, and its losses, are sums over the classes.
    norm_weight : float
        The bound is smallest where norm_weight ||g_c||^2 + (sum of hinge losses of g_c) is, for each c.
    """

    name: str
    bound: Callable[[Run, Check], float]
    norm_weight: float


DeclaredTheorem: TypeAlias = (
    FunctionTheorem | WeightsTheorem | SequenceTheorem | ImageTheorem | VoteTheorem | ClassesTheorem
)


def perceptron_theorems(radius: float, updates: int | None = None) -> list[DeclaredTheorem]:
    """Return the theorems of the Perceptron; `updates` is their number if it is not that of the mistakes."""
    # Dividing all rows by a number does not change the Perceptron's predictions, and multiplies ||g|| by it.
    scale = max(1.0, radius)
    scope = f", on rows divided by {radius:.4g}" if radius > 1 + bounds.ROUNDING else ""

    def plain(run: Run, check: Check) -> float:
        return bounds.perceptron(scale * run.norm, run.losses, run.radius / scale, check=check)

    def at_own_scale(theorem: Callable[..., float], order: int) -> Callable[[Run, Check], float]:
        # With rho = 1 / ||g||, the rho-hinge losses of g / ||g|| are the hinge losses of g.
        def bound(run: Run, check: Check) -> float:
            losses = np.maximum(0.0, 1.0 - run.margins[run.trace.mistakes])
            rho = 1 / run.norm if run.norm else inf
            return theorem(run.radius, rho, float(np.linalg.norm(losses, order)), check=check)

        return bound

    return [
        FunctionTheorem("perceptron", plain, norm_weight=scale**2 / 2, scope=scope),
        FunctionTheorem("perceptron_l1", at_own_scale(bounds.perceptron_l1, 1), count=updates),
        FunctionTheorem("perceptron_l2", at_own_scale(bounds.perceptron_l2, 2), count=updates),
    ]
