"""The margin Perceptron: 004 figure 8.12."""

from numbers import Real
from typing import Any, ClassVar

import cython
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from sklearn.utils._param_validation import Interval

from budgetron._base.linear_classifier import LinearClassifier


@cython.cclass
class MarginRule(LinearRule):
    """Update as long as the example lies within half the margin of the hyperplane."""

    half: cython.double  # rho / 2

    def __init__(self, d: int, single: bool, margin: float) -> None:
        LinearRule.__init__(self, d, single, reach=1.0)
        self.half = 0.5 * margin

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def wants_update(self) -> cython.bint:
        # w = 0 or y w . x / ||w|| < rho / 2
        return self.norm2 <= 0.0 or self.y * self.margin < self.half * self.norm()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        self.note(TAU, 1.0)
        self.add(self.y)
        return 1


@cython.annotation_typing(False)  # here they are for readers
class MarginPerceptron(LinearClassifier):
    """The Perceptron that also updates on examples too near the hyperplane.

    On separable data, run until it stops changing, it ends with at least half of the
    margin asked for, where the Perceptron may end with any.

    Parameters
    ----------
    margin : float, default=0.1
        rho: an example is learned as long as its distance from the hyperplane is below
        rho / 2. If the data can be separated by rho, at most 16 (r / rho)^2 updates are
        made for rows within r of the origin. Larger learns from more rounds; what is
        large depends on the length of the rows.

    Notes
    -----
    Cost per round: O(non-zeros); memory O(d). ||w|| is tracked, not computed. A trace's mistakes are
    rounds with y w . x <= 0; `updates_` counts the updates, which are more. The hyperplane
    passes through the origin.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, figure 8.12 and
    exercise 8.6.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import MarginPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MarginPerceptron(margin=10.0)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 219 mistakes, error rate 0.1219)
    >>> model.updates_
    618
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "margin": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(self, margin: float = 0.1) -> None:
        self.margin = margin

    def _rule(self, d: int, single: bool) -> MarginRule:
        return MarginRule(d, single, self.margin)
