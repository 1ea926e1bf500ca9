"""The linear learners, one file each: a weight a feature, dense and sparse rows alike.

A learner's file holds its rule, compiled, and the scikit-learn class over it. The lines
here are the register: the build compiles each module they name, and the conformance tests
run over them.
"""

from budgetron._linear_face import LinearClassifier as _LinearClassifier
from budgetron.linear._arow import AROW as AROW
from budgetron.linear._margin import MarginPerceptron as MarginPerceptron
from budgetron.linear._online_svm import OnlineSVM as OnlineSVM
from budgetron.linear._passive_aggressive import PassiveAggressive as PassiveAggressive
from budgetron.linear._perceptron import Perceptron as Perceptron
from budgetron.linear._voted import VotedPerceptron as VotedPerceptron
from budgetron.linear._winnow import Winnow as Winnow


def learners() -> list[type[_LinearClassifier]]:
    """All linear learners, by name.

    Examples
    --------
    >>> from budgetron import linear
    >>> linear.AROW in linear.learners()
    True
    """
    return [
        value
        for name, value in sorted(globals().items())
        if not name.startswith("_") and isinstance(value, type) and issubclass(value, _LinearClassifier)
    ]
