"""The linear learners: a weight a feature, for dense and sparse rows alike.

=====================  ==============================================================
`AROW`                 second order: the fewest mistakes
`PassiveAggressive`    just far enough to be right about the row at hand
`OnlineSVM`            the SVM by gradient steps; the past fades
`Winnow`               multiplies weights: few of many features matter
`Perceptron`           the simplest, also normalized
`VotedPerceptron`      the Perceptron with all its hypotheses, weighted by survival
`MarginPerceptron`     the Perceptron that insists on a margin
=====================  ==============================================================

All have the interface of the kernel learners, and `coef_`. Their hyperplanes pass through the
origin.
"""

# The lines below are the register: the build compiles each module that they name, and the
# conformance tests run over them.

from budgetron._base.linear_classifier import LinearClassifier as _LinearClassifier
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


__all__ = ["learners", *(cls.__name__ for cls in learners())]
