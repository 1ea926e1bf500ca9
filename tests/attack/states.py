"""The learned state of a model as a value that can be compared, and all ways to copy a model."""

import copy
import math
import pickle
import struct
import tempfile
from pathlib import Path

import joblib
import numpy as np
import skops.io
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

import budgetron
from budgetron.river import RiverLearner


def frozen(value):
    """Return a value that is equal for equal states, bit for bit, and does not change with the model."""
    if isinstance(value, RiverLearner):
        parameters = {name: getattr(value, name) for name in value.parameter_names()}
        return frozen((type(value).__name__, parameters, value.to_parts()))
    if isinstance(value, BaseEstimator):
        if not hasattr(value, "learned_state"):  # an estimator of scikit-learn
            arrays = {name: item for name, item in vars(value).items() if isinstance(item, np.ndarray)}
            return frozen((type(value).__name__, arrays))
        parameters = value.get_params(deep=False)
        return frozen((type(value).__name__, parameters, value.learned_state()))
    if issparse(value):
        return frozen((value.format, value.shape, *value.coords) if value.format == "coo" else vars(value))
    if isinstance(value, np.ndarray):
        # In unused places, a copy may have 0.0 for -0.0.
        positive = value + 0.0 if value.dtype.kind == "f" else value
        content = value.tolist() if value.dtype == object else positive.tobytes()
        return (value.dtype.str, value.shape, frozen(content))
    if isinstance(value, np.random.RandomState):
        return frozen(value.get_state())
    if isinstance(value, dict):
        return {key: frozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    if isinstance(value, float):  # so that NaN is equal to itself
        return struct.pack("d", value)
    return value


def assert_equal(before, after, what="the state"):
    """Compare two frozen states."""
    found = difference(before, after)
    assert not found, f"{what} differs at {found[:300]}"


def difference(before, after, path=""):
    """Return where two frozen states differ; an empty string if they are equal."""
    if isinstance(before, dict) and isinstance(after, dict):
        if before.keys() != after.keys():
            return f"{path}: {sorted(before.keys() ^ after.keys(), key=str)}"
        pairs = [(f"{path}/{key}", before[key], after[key]) for key in before]
    elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        pairs = [(f"{path}/{i}", *items) for i, items in enumerate(zip(before, after, strict=True))]
    else:
        return "" if before == after else f"{path}: {before!r} became {after!r}"
    return next((found for place, left, right in pairs if (found := difference(left, right, place))), "")


def through_pickle(protocol):
    return lambda model: pickle.loads(pickle.dumps(model, protocol))


def through_buffers(model):
    buffers = []
    data = pickle.dumps(model, 5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


def through_skops(model):
    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


def through_file(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        budgetron.save(model, path)
        return budgetron.load(path)


def through_state(model):
    other = type(model).__new__(type(model))
    other.__setstate__(copy.deepcopy(model.__getstate__()))
    return other


def through_mapped_file(model):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        joblib.dump(model, path)
        return copy.deepcopy(joblib.load(path, mmap_mode="r"))


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
    "pickle, protocol 2": through_pickle(2),
    "pickle, protocol 5": through_pickle(5),
    "pickle with buffers": through_buffers,
    "skops": through_skops,
    "file": through_file,
    "state": through_state,
    "memory-mapped file": through_mapped_file,
}


def close(left, right, tolerance, scale=1.0):
    """Return whether numbers are equal up to rounding; NaN is never equal."""
    left, right = np.asarray(left, float), np.asarray(right, float)
    if left.shape != right.shape:
        return False
    scale = max([scale, *np.abs(right).reshape(-1).tolist()])
    return math.isfinite(scale) and bool((np.abs(left - right) <= tolerance * scale).all())
