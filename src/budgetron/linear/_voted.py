"""The voted Perceptron (Mohri et al., section 8.3.1)."""

from typing import ClassVar

import cython
import numpy as np
from sklearn.utils._param_validation import StrOptions

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.linear_estimator import FIT_INTERCEPT
from budgetron._base.parameters import Constraints
from budgetron._base.past_hypotheses import PastHypotheses, blocks_for_margins
from budgetron._base.theorems import DeclaredTheorem, perceptron_theorems
from budgetron._core.linear import LinearRule
from budgetron._util.types import Floats, Matrix
from budgetron.linear._perceptron import PerceptronRule


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class VotedPerceptron(LinearClassifier):
    """A Perceptron that predicts with all its hypotheses, weighted by the number of rounds each lasted.

    It learns exactly as `Perceptron` does, and has the same trace. Only `decision_function` differs: it
    varies less than the last hypothesis alone. Use it for a model that stops learning and is applied to other
    data.

    Parameters
    ----------
    vote : {"average", "majority"}, default="average"
        "average" predicts by the mean of the weights over all rounds (the voted Perceptron of Mohri et al.),
        which is `coef_`. With "majority" each hypothesis votes with its sign; all updates are stored, so that
        memory grows, and there is no `coef_`. "majority" is rarely better.
    fit_intercept : bool, default=True
        Whether the hyperplane may have an offset from the origin, which is learned as the weight of a
        constant feature of 1.

    Notes
    -----
    Cost per round: O(non-zeros), because the average is stored as sums that change only with an update.
    Memory: O(d); with "majority" also O(non-zeros) per update. Prediction costs O(non-zeros) per row; with
    "majority" O(non-zeros) per row and update.

    A hypothesis counts once for each round that it predicted, so one that was made in the last round does not
    count yet. The average over T rounds is the hypothesis of Theorem 8.15 of Mohri et al. The bounds of
    `Perceptron` hold for the rounds of the trace, with an intercept those for rows (1, x).

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron.linear import VotedPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = VotedPerceptron().fit(X[:1000], y[:1000] % 2)
    >>> round(model.score(X[1000:], y[1000:] % 2), 3)
    0.863
    """

    _predicts_as_it_learns = False
    _parameter_constraints: ClassVar[Constraints] = FIT_INTERCEPT | {
        "vote": [StrOptions({"average", "majority"})],
    }

    def __init__(self, vote: str = "average", *, fit_intercept: bool = True) -> None:
        self.vote = vote
        self.fit_intercept = fit_intercept

    def _rule(self, d: int, single: bool) -> PerceptronRule:
        rule = PerceptronRule(d, single, self.fit_intercept, 1.0, False)
        if self.vote == "average":
            rule.keep_average()
        else:
            rule.keep_journal()
        return rule

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return perceptron_theorems(radius, self.updates_)  # of the hypotheses that learn, as in the trace

    def _weights(self, learner: LinearRule) -> Floats:
        if self._started_with["vote"] == "majority":  # what is stored was decided then
            raise AttributeError('there is no coef_ with vote="majority": no single weight vector decides')
        return learner.averaged()

    def _decide(self, learner: LinearRule, X: Matrix) -> Floats:
        if self._started_with["vote"] == "average":
            return super()._decide(learner, X)
        run = PastHypotheses(learner)
        # Each hypothesis predicted the rounds after its own up to that of the next.
        lasted = np.diff(run.rounds, append=learner.rounds - 1).astype(float)  # c_k
        votes = np.empty(X.shape[0])
        for piece in blocks_for_margins(len(run), X.shape[0]):
            votes[piece] = lasted @ np.sign(run.margins(X[piece], run.rounds + 1))
        votes /= learner.rounds  # sums of integers are exact, so that rounding breaks no tie between classes
        return votes
