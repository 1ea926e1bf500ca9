"""Rules keep their options: in copies, through pickling, and in the rounds that follow."""

import copy
import pickle
import re

import numpy as np
import pytest
from cases import CASES, stream

from budgetron import linear
from budgetron._core.kernel import Kernel
from budgetron._core.linear import LinearRule
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron.kernelized._cks import CKSRule
from budgetron.kernelized._randomized import RandomRule
from budgetron.kernelized._remove_oldest import RemoveOldestRule
from budgetron.kernelized._stoptron import StoptronRule

COPIES = {"pickle": lambda value: pickle.loads(pickle.dumps(value)), "deepcopy": copy.deepcopy}

# Every keyword of `Rule`, with a value that is not the default, and what shows that a rule has it.
OPTIONS = {
    "ledger": (("norm", "removed"), lambda rule: rule.ledger),
    "tail": (True, lambda rule: rule.tail.shape),
    "gram": (True, lambda rule: rule.gram.shape),
    "projection": (True, lambda rule: rule.projection is not None),
    "generator": (np.random.default_rng(5), lambda rule: rule.generator.bit_generator.state),
    "divides": (True, lambda rule: rule.divides),
    "norm": (True, lambda rule: np.isfinite(rule.norm2)),
}
# Rules without a constructor of their own, with a budget and the options that they need.
RULES = {
    StoptronRule: (8, {}),
    RemoveOldestRule: (8, {"ledger": ("psi", "removed", "norm")}),
    CKSRule: (8, {"gram": True}),
    RandomRule: (8, {"generator": np.random.default_rng(2)}),
}


def learner_of(rule):
    X, _ = stream("random")
    return Learner(Kernel("rbf", 0.5), rule, X.shape[1], np.dtype(np.float64), False)


def learn(learner, start, end):
    X, y = stream("random")
    margins = np.empty(end - start)
    learner.learn(X[start:end], y[start:end], margins)
    return margins


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_copy_keeps_every_option(rule, option, copied):
    value, effect = OPTIONS[option]
    if option == "tail" and rule in (CKSRule, RandomRule):
        pytest.skip("with the tail only the oldest support may be removed")
    budget, needed = RULES[rule]
    options = needed | {option: value}
    one = rule(budget, **copy.deepcopy(options))
    two = copied(one)
    assert two.args == (budget,)
    assert set(two.options) == set(options)
    np.testing.assert_equal(effect(two), effect(one))
    if option == "projection":  # only rules that store supports in the projection can play with it
        return
    first, second = learner_of(one), learner_of(two)
    np.testing.assert_array_equal(learn(first, 0, 100), learn(second, 0, 100))
    np.testing.assert_equal(effect(second.rule), effect(first.rule))
    third = copied(first)
    np.testing.assert_array_equal(learn(first, 100, 200), learn(third, 100, 200))
    np.testing.assert_equal(effect(third.rule), effect(first.rule))


def test_every_option_has_an_effect():
    for name, (value, effect) in OPTIONS.items():
        rules = [RemoveOldestRule(8), RemoveOldestRule(8, **{name: copy.deepcopy(value)})]
        if name == "generator":
            assert rules[0].generator is None
            continue
        if name != "projection":
            for rule in rules:
                learn(learner_of(rule), 0, 100)
        without, with_option = map(effect, rules)
        assert without != with_option, name


def test_every_option_is_tested():
    sections = Rule.__doc__.split("----------\n")[1]
    names = {name for line in re.findall(r"^ *([a-z, ]+) :", sections, re.M) for name in line.split(", ")}
    assert names - {"budget"} == set(OPTIONS)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("label", CASES)
def test_a_copied_rule_of_every_kernel_learner_goes_on(label, copied):
    model = CASES[label].model()
    model.gamma_, model.loss_ = 0.5, "hinge"
    one = model._rules(1, [np.random.default_rng(4)])[0]
    two = copied(one)
    assert (type(two), two.args[:1], set(two.options)) == (type(one), one.args[:1], set(one.options))
    first, second = learner_of(one), learner_of(two)
    np.testing.assert_array_equal(learn(first, 0, 120), learn(second, 0, 120))
    third = copied(first)
    assert third.ledger == first.ledger
    np.testing.assert_array_equal(learn(first, 120, 240), learn(third, 120, 240))


LINEAR = [cls() for cls in linear.learners()] + [
    linear.Perceptron(eta=0.5, normalize=True),
    linear.AROW(r=0.3, covariance="diagonal"),
    linear.Winnow(eta=0.3, balanced=True),
    linear.PassiveAggressive(C=0.2, variant="PA-II"),
    linear.OnlineSVM(eta=0.1, C=2.0),
    linear.MarginPerceptron(margin=0.7),
    linear.VotedPerceptron(vote="majority"),
]


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("model", LINEAR, ids=repr)
def test_a_copied_rule_of_every_linear_learner_goes_on(model, copied):
    X, y = stream("random")
    one = model.new_rule(X.shape[1], X.dtype)
    two = copied(one)
    margins = np.empty((2, 120))
    for rule, values in zip((one, two), margins, strict=True):
        rule.learn(X[:120], y[:120], values)
    np.testing.assert_array_equal(*margins)
    three = copied(one)
    assert (three.args, three.options) == (one.args, one.options)
    for rule, values in zip((one, three), margins, strict=True):
        rule.learn(X[120:], y[120:], values)
    np.testing.assert_array_equal(*margins)


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("options", [{"ledger": ("norm",)}, {"reach": 1.0}, {}], ids=repr)
def test_a_copied_linear_rule_keeps_its_options(options, copied):
    rule = copied(LinearRule(3, False, **options))
    assert rule.options == options
    assert rule.ledger == options.get("ledger", ("tau", "norm"))
    assert rule.is_safe(1.0) == ("reach" in options)  # steps have a limit


def test_options_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        Rule(5, ("norm",))
    with pytest.raises(TypeError, match="positional"):
        LinearRule(5, False, ("norm",))
