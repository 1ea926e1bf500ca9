"""Every change of a single field of a state, found by walking the state.

No list names the fields of a state: a new field is attacked as soon as it exists.
"""

import copy
import pickle

import numpy as np

# Numbers at the ends of what a type can hold, by the kind of the type.
EXTREMES = {
    "f": [0.0, -1.0, np.nan, np.inf, -np.inf, 1e300, 5e-324],
    "i": [0, -1, 1, 40, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)],
    "u": [0, 1, 2**32 - 1],
    "b": [True, False],
    "U": ["", "z" * 40],
    "O": [None, "", 3],
}

# Values of other types that replace a field.
OTHER_TYPES = [
    None,
    True,
    -1,
    2**70,
    0.5,
    np.nan,
    "",
    "rbf",
    b"",
    [],
    {},
    (),
    np.zeros(0),
    np.zeros((1, 0)),
    object(),
]


class Rows(np.ndarray):
    """A subclass of arrays, with an item access of its own."""

    def __getitem__(self, key):
        raise RuntimeError("read by item access")


def fields(state, path=()):
    """Yield the path and the value of each field of a state, tables and lists included."""
    for key, value in state.items() if isinstance(state, dict) else enumerate(state):
        yield (*path, key), value
        if isinstance(value, dict | list):
            yield from fields(value, (*path, key))


def corruptions(value):
    """Yield the name and the value of everything that the field may become."""
    if isinstance(value, np.ndarray):
        yield from arrays(value)
    elif isinstance(value, dict):
        yield from ((f"without {key!r}", without(value, key)) for key in value)
        yield "with a name more", value | {"unknown": 1}
    elif isinstance(value, list):
        yield from ((f"without item {i}", value[:i] + value[i + 1 :]) for i in range(len(value)))
        yield "with its last item twice", value + value[-1:]
        yield "in reverse order", value[::-1]
    elif type(value) in (int, float):
        kind = "i" if type(value) is int else "f"
        yield from ((f"now {other}", other) for other in EXTREMES[kind])
        yield "one more", value + 1
        yield "one less", value - 1
        yield "negative", -value
        yield "of the other type", float(value) if type(value) is int else 1
    yield from ((f"now {other!r}", other) for other in OTHER_TYPES)


def arrays(array):
    """Yield changes of the shape, the type, the layout and the numbers of an array."""
    yield "empty", array[:0].copy()
    yield "one longer", np.concatenate([array, array[-1:]]) if len(array) else np.zeros(1, array.dtype)
    yield "one shorter", array[:-1].copy()
    yield "with an axis more", array[None].copy()
    yield "flat", array.reshape(-1, 1).copy()
    yield (
        "without axes",
        array.reshape(-1)[:1].reshape(()).copy() if array.size else np.zeros((), array.dtype),
    )
    if array.ndim == 2:
        yield "transposed", array.T.copy()
        yield "of no columns", array[:, :0].copy()
    for dtype in ("f4", "f8", "i4", "i8", "u1", "c16", ">f8", ">i8", "O", "U3", "S3", "M8[s]", "V8"):
        if np.dtype(dtype) != array.dtype:
            try:
                yield f"of type {dtype}", array.astype(dtype)
            except (TypeError, ValueError):
                yield f"zeros of type {dtype}", np.zeros(array.shape, dtype)
    yield "a list", array.tolist()
    yield "a subclass", array.view(Rows)
    for name, place in (("first", 0), ("last", -1), ("every", slice(None))) if array.size else ():
        for extreme in EXTREMES.get(array.dtype.kind, []):
            changed = array.copy()
            try:
                changed.reshape(-1)[place] = np.asarray(extreme).astype(array.dtype)
            except OverflowError:
                continue
            yield f"with {extreme} in its {name} place", changed
    if array.size > 1:
        yield "in reverse order", array.reshape(-1)[::-1].reshape(array.shape).copy()
        yield "shifted", np.roll(array, 1)


def without(table, key):
    return {name: value for name, value in table.items() if name != key}


def corrupted_states(model):
    """Yield a description and a state for each change of a single field; the model itself is not changed."""
    original = pickle.loads(pickle.dumps(model.__getstate__()))
    yield from _changed(original, original, ())
    for path, value in list(fields(original)):
        yield from _changed(original, value, path)


def _changed(original, value, path):
    # numpy reports the conversions that change numbers; they are wanted here.
    with np.errstate(all="ignore"):
        for what, wrong in corruptions(value):
            state = copy.deepcopy(original)
            if not path:
                yield f"the state {what}", copy.deepcopy(wrong)
                continue
            node = state
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = copy.deepcopy(wrong)
            yield f"{'/'.join(map(str, path))} {what}", state
