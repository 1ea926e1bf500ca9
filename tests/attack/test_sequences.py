"""Random sequences of calls against every learner, wrapper and adapter; `run.py` has as many as one likes."""

import pytest
from models import VARIANTS, registered_names
from sequences import run_sequences


def test_every_class_has_a_machine():
    assert {variant.registered for variant in VARIANTS.values()} == registered_names()


@pytest.mark.parametrize("name", VARIANTS)
def test_sequences(name):
    run_sequences(name, 0, count=10, steps=15, shrink=True)
