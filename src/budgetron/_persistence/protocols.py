"""Trees of older protocols, brought into the form of the present one.

What changed: in 2, slabs may store the non-zeros of their rows only, kernel learners have `n_jobs`, and the
Gram matrix is gone where none is needed. In 3, learners with a C have `class_weight`, and there are models of
`budgetron.river`. In 4, the kernel PassiveAggressive may have a budget. In 5, SecondOrderProjectron and
linear.AROW have a loss, a prior, forgetting and class weights, and one hypothesis for all classes;
BudgetClassifier has class weights and other experts. In 6, the KernelPerceptron may have counters, the
ShrinkingPerceptron a variant and a rate, averages a budget, and linear learners initial weights. In 7, linear
learners may have an intercept, the first of their weights, and the KernelPerceptron initial coefficients.
"""

from __future__ import annotations

from budgetron._base.initial_weights import InitialWeightsClassifier
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.loss_classifier import LossClassifier
from budgetron._base.weighted_classifier import WeightedClassifier
from budgetron._persistence.registry import CLASSES
from budgetron._persistence.writer import Tree
from budgetron.batch import AveragedClassifier
from budgetron.kernelized import KernelPerceptron, PassiveAggressive, ShrinkingPerceptron
from budgetron.portfolio import BudgetClassifier

__all__ = ["PROTOCOL", "upgraded"]

PROTOCOL = 7

# For each older protocol: the class of the learners to which the next one added something, the parameters
# that it added with the values that give the old behaviour, and the learned attributes that it added.
ADDED: dict[int, list[tuple[type, dict[str, object], dict[str, object]]]] = {
    1: [(KernelClassifier, {"n_jobs": None}, {})],
    2: [(WeightedClassifier, {"class_weight": None}, {})],
    3: [(PassiveAggressive, {"budget": None}, {})],
    4: [
        (
            LossClassifier,
            {"loss": "hinge", "prior": 1.0, "forget": 1.0, "class_weight": None},
            {"loss_": "hinge"},
        ),
        (BudgetClassifier, {"class_weight": None}, {}),
    ],
    5: [
        (KernelPerceptron, {"counters": False}, {}),
        (ShrinkingPerceptron, {"variant": "constant", "rate": 2.0}, {}),
        (AveragedClassifier, {"budget": None}, {}),
        (InitialWeightsClassifier, {"initial_weights": None}, {}),
    ],
    6: [
        (KernelPerceptron, {"initial_coefficients": None}, {}),
        (LinearClassifier, {"fit_intercept": False}, {}),
    ],
}


def upgraded(head: Tree, protocol: int) -> Tree:
    """Return the tree of an older protocol in the form of the present one."""
    for step in range(protocol, PROTOCOL):
        for added in ADDED[step]:
            head = _with_additions(head, *added)
    return head


def _with_additions(node: Tree, cls: type, parameters: dict[str, object], learned: dict[str, object]) -> Tree:
    """Return the same tree, where models of this class have more parameters and learned attributes."""
    if isinstance(node, list):
        return [_with_additions(item, cls, parameters, learned) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _with_additions(item, cls, parameters, learned) for key, item in node.items()}
    if node.get("#") == "model" and issubclass(CLASSES.get(str(node.get("class")), object), cls):
        found = node.get("learned")
        started = found.get("_started_with") if isinstance(found, dict) else None
        for table, added in ((node.get("parameters"), parameters), (started, parameters), (found, learned)):
            for name, value in added.items():
                if isinstance(table, dict):
                    table.setdefault(name, value)
    return node
