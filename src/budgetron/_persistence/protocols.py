"""Trees of older protocols, brought into the form of the present one.

What changed: in 2, slabs may store the non-zeros of their rows only, kernel learners have `n_jobs`, and the
Gram matrix is gone where none is needed. In 3, learners with a C have `class_weight`, and there are models of
`budgetron.river`. In 4, the kernel PassiveAggressive may have a budget.
"""

from __future__ import annotations

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.weighted_classifier import WeightedClassifier
from budgetron._persistence.registry import CLASSES
from budgetron._persistence.writer import Tree
from budgetron.kernelized import PassiveAggressive

__all__ = ["PROTOCOL", "upgraded"]

PROTOCOL = 4

# For each older protocol, the parameter that the next one added, and the class of the learners that have it.
ADDED: dict[int, tuple[type, str]] = {
    1: (KernelClassifier, "n_jobs"),
    2: (WeightedClassifier, "class_weight"),
    3: (PassiveAggressive, "budget"),
}


def upgraded(head: Tree, protocol: int) -> Tree:
    """Return the tree of an older protocol in the form of the present one."""
    for step in range(protocol, PROTOCOL):
        head = _with_parameter(head, *ADDED[step])
    return head


def _with_parameter(node: Tree, cls: type, name: str) -> Tree:
    """Return the same tree, where models of this class have one more parameter, which is None."""
    if isinstance(node, list):
        return [_with_parameter(item, cls, name) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _with_parameter(item, cls, name) for key, item in node.items()}
    if node.get("#") == "model" and issubclass(CLASSES.get(str(node.get("class")), object), cls):
        learned = node.get("learned")
        started = learned.get("_started_with") if isinstance(learned, dict) else None
        for parameters in (node.get("parameters"), started):
            if isinstance(parameters, dict):
                parameters.setdefault(name, None)
    return node
