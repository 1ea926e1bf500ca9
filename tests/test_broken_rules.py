"""Each rule of the budget learners, broken once: the comparison with its reference fails."""

import dataclasses

import numpy as np
import pytest
import test_fogd
import test_support_merging
from cases import CASES
from test_reference import assert_same, replay
from test_sabotage import build

# For each fault: the case, the module, the text to replace, and its replacement.
FAULTS = {
    "no decay": ("ogd decay", "_ogd", "self.shrink(1.0 - eta * self.decay)", "self.shrink(1.0)"),
    "the other coefficients are not scaled": (
        "bogd",
        "_bogd",
        "self.weight(p) * (1.0 / keep - 1.0)",
        "0.0 * keep",
    ),
    "probabilities with another sum": (
        "bogd++",
        "_bogd",
        "s = (free - 1) / total if total",
        "s = 0.9 * (free - 1) / total if total",
    ),
    "the removed term is lost": (
        "budget pa simple",
        "_budget_pa",
        "self.add(c + self.weight(r) * share)",
        "self.add(c)",
    ),
    "the neighbour gets nothing": (
        "budget pa nearest",
        "_budget_pa",
        "self._direction[self.supports._order[n]] = other",
        "self._direction[self.supports._order[n]] = 0.0",
    ),
    "the distance from the span is ignored": (
        "budget pa projecting",
        "_budget_pa",
        "self.weight(p) * self.weight(p) * self.distance2(p)",
        "self.weight(p) * self.weight(p)",
    ),
    "the smallest margin": ("tighter", "_tighter", "and margin > threshold", "and margin < threshold"),
    "one more support is kept": (
        "ahpatron",
        "_ahpatron",
        "self.keep_largest(self.budget // 2)",
        "self.keep_largest(self.budget // 2 + 1)",
    ),
    "no projection onto the ball": (
        "ahpatron, parameters",
        "_ahpatron",
        "self.shrink(self.radius / self.norm())",
        "self.shrink(1.0)",
    ),
    "no regularization": ("bsgd removal", "_bsgd", "self.shrink(1.0 - 1.0 / t)", "self.shrink(1.0)"),
    "the oldest is projected": (
        "bsgd projection",
        "_bsgd",
        "self.maintain(self.smallest())",
        "self.maintain(0)",
    ),
    "no level": ("auc", "_auc_maximizer", "        self.level()\n", ""),
    "the loss of all pairs is summed": (
        "auc",
        "_auc_maximizer",
        "self.eta * self.y / self.count(-self.y)",
        "self.eta * self.y",
    ),
    "each row is stored": (
        "auc",
        "_auc_maximizer",
        "self.draw_fraction() * rows",
        "self.draw_fraction() * own",
    ),
    "f is not projected": (
        "nogd",
        "_nogd",
        "self.direction[slots] = inverse @ (gram @ coef) - coef",
        "self.direction[slots] = 0.0 * coef",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_rule_is_noticed(name, tmp_path):
    label, *change = FAULTS[name]
    case = CASES[label]
    run = replay(case, "random", "rbf")
    module = build(tmp_path, change, "broken_" + "".join(filter(str.isalnum, name)))
    learner = getattr(module, case.learner.__name__)
    model = dataclasses.replace(case, learner=learner).model()
    trace = model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True)
    with pytest.raises(AssertionError):
        assert_same(model, trace, run)


def test_removal_instead_of_merging_is_noticed(tmp_path):
    run = test_support_merging.replay("random")
    change = ("_bsgd", "self.merge(p, partner)", "self.remove(p)")
    learner = build(tmp_path, change, "broken_merging").BSGD
    model = learner(10, "merging", 0.05, gamma=0.5)
    trace = model.progressive_fit(run[0], run[1], classes=[-1, 1], ledger=True)
    with pytest.raises(AssertionError):
        test_support_merging.assert_same(model, trace, run)


@pytest.mark.parametrize(
    ("variant", "classes", "old", "new"),
    [
        ("hinge decay", 2, "self.shrink(1.0 - eta * self.decay)", "self.shrink(1.0)"),
        ("hinge", 4, "self._steps[other] = -1.0", "self._steps[other] = 0.0"),
        ("logistic", 4, "- self._steps[c] / total", "- self._steps[c]"),
        ("squared", 4, "(1.0 if c == self.target else -1.0)", "(1.0 if c == self.target else 0.0)"),
    ],
)
def test_a_broken_rule_of_fogd_is_noticed(variant, classes, old, new, tmp_path):
    X, y = test_fogd.rows("random", classes)
    model = test_fogd.make(variant)
    _, scores, _ = test_fogd.replay(model, X, y, classes)
    learner = build(tmp_path, ("_fogd", old, new), f"broken_fogd_{variant.replace(' ', '_')}").FOGD
    margins = learner(**model.get_params()).progressive_fit(X, y).margins
    assert not np.allclose(margins, scores[:, 0] if classes == 2 else scores, rtol=1e-9, atol=1e-9)
