"""The voted Perceptron: 004 section 8.3.1."""

from typing import Any, ClassVar

import cython
import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.past_hypotheses import Hypotheses, blocks
from budgetron._core.linear import LinearRule
from budgetron.linear._perceptron import PerceptronRule


@cython.annotation_typing(False)  # here they are for readers
class VotedPerceptron(LinearClassifier):
    """The Perceptron that predicts with all its hypotheses, weighted by how long each lasted.

    It learns exactly as `Perceptron` does, and its trace is that learner's; what differs
    is `decision_function`, which is steadier than the last hypothesis alone. Use it
    when the model is to be frozen and applied to other data.

    Parameters
    ----------
    vote : {"average", "majority"}, default="average"
        "average" predicts by the mean of the weights over all rounds (004's voted
        Perceptron), `coef_`. "majority" lets each hypothesis vote with its sign; it keeps
        all updates, so that memory grows, and there is no `coef_`. It is rarely better.

    Notes
    -----
    Cost per round: O(non-zeros), for the average is kept as sums that only move with an update; memory
    O(d), and with "majority" also O(non-zeros) for each update. Predicting costs O(non-zeros) a row,
    with "majority" that times the number of updates.

    A hypothesis counts once for each round that it was asked to predict, so one made in
    the last round does not count yet. The average over T rounds is the hypothesis of
    004 Theorem 8.15. The hyperplane passes through the origin.

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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "vote": [StrOptions({"average", "majority"})],
    }

    def __init__(self, vote: str = "average") -> None:
        self.vote = vote

    def _rule(self, d: int, single: bool) -> PerceptronRule:
        rule = PerceptronRule(d, single, 1.0, False)
        if self.vote == "average":
            rule.keep_average()
        else:
            rule.keep_journal()
        return rule

    def _weights(self, learner: LinearRule) -> NDArray[np.float64]:
        if self._started_with["vote"] == "majority":  # what is kept was chosen then
            raise AttributeError('coef_: with vote="majority" no single weight vector decides')
        return learner.averaged()

    def _decide(self, learner: LinearRule, X: Any) -> NDArray[np.float64]:
        if self._started_with["vote"] == "average":
            return super()._decide(learner, X)
        run = Hypotheses(learner)
        # Each was asked in the rounds after its own up to that of the next.
        lasted = np.diff(run.rounds, append=learner.rounds - 1) / learner.rounds  # c_k / T
        votes = np.empty(X.shape[0])
        for piece in blocks(len(run), X.shape[0]):
            votes[piece] = lasted @ np.sign(run.margins(X[piece], run.rounds + 1))
        return votes
