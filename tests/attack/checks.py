"""Checks of calls: valid ones give no warnings, and invalid ones change nothing."""

import warnings
from contextlib import contextmanager

from states import assert_equal, frozen


@contextmanager
def strict():
    """Turn warnings into errors, except for scikit-learn's warnings about the names of features."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "X (has|does not have) .*feature names")
        yield


def refuses(model, call):
    """Check that a call raises an error with a message, and leaves the model unchanged."""
    before, attributes = frozen(model), list(vars(model))
    try:
        with strict():
            call()
    except (ValueError, TypeError) as error:
        assert str(error)  # noqa: PT017 - any message, and either type
    else:
        raise AssertionError("the call was accepted")
    assert_equal(before, frozen(model))
    assert list(vars(model)) == attributes
