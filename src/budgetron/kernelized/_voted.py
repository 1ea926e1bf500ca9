"""The voted kernel Perceptron (Mohri et al., section 8.3.1)."""

from typing import ClassVar

import cython
import numpy as np
from sklearn.utils._param_validation import StrOptions

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.parameters import Constraints
from budgetron._base.theorems import DeclaredTheorem, perceptron_theorems
from budgetron._core.rounds import Learner
from budgetron._util.blocks import row_blocks
from budgetron._util.types import Floats, Matrix
from budgetron.kernelized._perceptron import PerceptronRule
from budgetron.kernels import KernelFunction, Normalized

# A vote needs the kernel values themselves. This many are computed at a time.
VALUES_AT_ONCE = 1 << 20


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class VotedKernelPerceptron(KernelClassifier):
    """A kernel Perceptron that predicts with all its hypotheses, weighted by the rounds each lasted.

    It learns exactly as `KernelPerceptron` does, and has the same trace. Only `decision_function` differs: it
    varies less than the last hypothesis alone. Use it for a model that stops learning and is applied to other
    data.

    Parameters
    ----------
    vote : {"average", "majority"}, default="average"
        "average" predicts by the mean of the hypotheses over all rounds (the voted Perceptron of Mohri et
        al.). With "majority" each hypothesis votes with its sign.
    kernel, gamma, degree, coef0
        The kernel; see `budgetron.kernels`.
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch: None is 1, -1 is all cores.

    Notes
    -----
    Cost per round and memory: those of `KernelPerceptron`. The weights of the hypotheses follow from the
    rounds in which the supports were added. A hypothesis counts once for each round that it predicted, so
    one that was made in the last round does not count yet.

    The average over T rounds is the hypothesis of Theorem 8.15 of Mohri et al.

    References
    ----------
    Mohri, Rostamizadeh, Talwalkar: Foundations of Machine Learning, section 8.3.1.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import VotedKernelPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> model = VotedKernelPerceptron(gamma=0.001).fit(X[:1000], y[:1000] % 2)
    >>> round(model.score(X[1000:], y[1000:] % 2), 3)
    0.946
    """

    _predicts_as_it_learns = False
    _parameter_constraints: ClassVar[Constraints] = KernelClassifier._parameter_constraints | {
        "vote": [StrOptions({"average", "majority"})]
    }

    def __init__(
        self,
        vote: str = "average",
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(kernel=kernel, gamma=gamma, degree=degree, coef0=coef0, n_jobs=n_jobs)
        self.vote = vote

    def _rule(self, generator: np.random.Generator) -> PerceptronRule:
        return PerceptronRule(False)

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return perceptron_theorems(radius)  # of the hypotheses that learn, as in the trace

    def _decide(self, learner: Learner, X: Matrix) -> Floats:
        supports, rule = learner.supports, learner.rule
        if self.vote == "average":
            # The support of round t takes part in the hypotheses of rounds t+1, ..., T-1.
            survived = (rule.rounds - 1 - supports.rounds) / rule.rounds
            return learner.decide(X, rule.coef * np.where(rule.coef == 0.0, 0.0, survived), self._threads())
        added = supports.rounds[supports.order[: supports.m]]
        lasted = np.diff(added, append=rule.rounds - 1) / rule.rounds  # c_k / T
        coef = rule.coefficients()
        votes = np.empty(X.shape[0])
        for block in row_blocks(X.shape[0], max(1, VALUES_AT_ONCE // max(1, len(added)))):
            values = learner.kernel_values(X[block])
            votes[block] = np.sign(np.cumsum(values * coef, axis=1)) @ lasted
        return votes
