"""Extras of model files that are nested too deeply, contain themselves, or cannot be represented."""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies

import budgetron
from budgetron import ModelFileError, experts, files, linear


def nested(levels, wrap):
    value = 1
    for _ in range(levels):
        value = wrap(value)
    return value


def object_array(value):
    array = np.empty(1, object)
    array[0] = value
    return array


WRAPS = [
    lambda value: [value],
    lambda value: (value,),
    lambda value: {"a": value},
    lambda value: {"#": value},
    lambda value: {1: value},
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_extras_are_nested_up_to_a_limit(wrap, tmp_path):
    path = tmp_path / "model"
    deepest = {"a": nested(98, wrap)}
    budgetron.save(budgetron.Stoptron(), path, extras=deepest)
    assert files.load_extras(path) == deepest
    before = path.read_bytes()
    for levels in (99, 3000):
        with pytest.raises(TypeError, match=r"the extras is nested more than 100 levels deep.*fewer levels"):
            budgetron.save(budgetron.Stoptron(), path, extras={"a": nested(levels, wrap)})
    with pytest.raises(TypeError, match=r"the extras is nested more than 100 levels deep"):
        budgetron.save(budgetron.Stoptron(), path, extras={"a": nested(3000, object_array)})
    assert path.read_bytes() == before


def test_extras_that_contain_themselves_are_refused(tmp_path):
    table, items, array = {}, [], np.empty(1, object)
    table["a"] = table["b"] = table
    items += [items, items]
    array[0] = array
    for extras in (table, {"a": items}, {"a": array}):
        with pytest.raises(TypeError, match=r"the extras is nested .* or contains itself"):
            budgetron.save(budgetron.Stoptron(), tmp_path / "model", extras=extras)
    assert list(tmp_path.iterdir()) == []


def test_models_in_models_are_nested_up_to_a_limit(tmp_path):
    def wrap(model):
        return experts.ExpertClassifier([model, linear.AROW()])

    def model_of(levels):
        model = linear.AROW()
        for _ in range(levels):
            model = wrap(model)
        return model

    budgetron.save(model_of(20), tmp_path / "model")
    assert (
        budgetron.load(tmp_path / "model").get_params(deep=False).keys()
        == wrap(None).get_params(False).keys()
    )
    with pytest.raises(
        TypeError, match=r"this experts\.ExpertClassifier is nested more than 100 levels deep"
    ):
        budgetron.save(model_of(60), tmp_path / "model")


class Word(str):
    """Text that is shown differently from what it is, like a member of an enumeration."""

    __slots__ = ()

    def __str__(self):
        return "shown"


def test_values_of_extras_at_the_limits(tmp_path):
    path = tmp_path / "model"
    model = budgetron.Stoptron(3)
    extras = {
        "integers": [2**2048 - 1, 1 - 2**2048],
        "member": Word("red"),
        Word("red"): 1,
        "half a pair": "\ud800",
        "the model itself": model,
    }
    digits = sys.get_int_max_str_digits()
    budgetron.save(model, path, extras=extras)
    try:
        sys.set_int_max_str_digits(640)
        loaded = files.load_extras(path)
    finally:
        sys.set_int_max_str_digits(digits)
    assert repr(loaded.pop("the model itself")) == repr(extras.pop("the model itself"))
    assert loaded == extras
    for bad in (2**2048, -(2**2048), 10**5000):
        for value in (bad, [bad], {bad: 1}):
            with pytest.raises(TypeError, match=r"an integer of \d+ bits in the extras .* store it as text"):
                budgetron.save(model, path, extras={"a": value})
    with pytest.raises(ModelFileError, match=r"the tables .* take .* bytes; .* store long lists as arrays"):
        budgetron.save(model, path, extras={"a": "x" * 2**24})
    assert files.load_extras(path).keys() == {*extras, "the model itself"}


LEAVES = strategies.one_of(
    strategies.none(),
    strategies.booleans(),
    strategies.integers(-(2**70), 2**70),
    strategies.floats(),
    strategies.text(max_size=3),
    strategies.sampled_from(["#", "map", "array"]),
    strategies.floats(width=32).map(np.float32),
    strategies.lists(strategies.integers(0, 9), max_size=3).map(np.array),
    strategies.lists(strategies.one_of(strategies.text(max_size=2), strategies.floats()), max_size=3).map(
        lambda items: np.array(items, object)
    ),
    strategies.sampled_from([b"", object(), np.zeros((1, 1, 1)), np.array(["\ud800"]), np.zeros(2, "M8[s]")]),
)


@given(
    strategies.dictionaries(
        strategies.text(max_size=2),
        strategies.recursive(
            LEAVES,
            lambda inner: strategies.one_of(
                strategies.lists(inner, max_size=3),
                strategies.lists(inner, max_size=2).map(tuple),
                strategies.dictionaries(
                    strategies.one_of(strategies.sampled_from(["#", "a", 1, 2.5, True]), strategies.floats()),
                    inner,
                    max_size=3,
                ),
            ),
            max_leaves=8,
        ),
        max_size=3,
    )
)
def test_what_can_be_saved_can_be_loaded(extras):
    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder, "a"), Path(folder, "b")
        try:
            budgetron.save(budgetron.Stoptron(), path, extras=extras)
        except TypeError:
            return
        loaded = files.load_extras(path)
        assert list(loaded) == list(extras)
        budgetron.save(budgetron.Stoptron(), again, extras=loaded)
        assert again.read_bytes() == path.read_bytes()
