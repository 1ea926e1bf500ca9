"""Models as trees of plain values and arrays.

A tree contains what JSON can represent. Every other value becomes a table with the key ``"#"``, which names
its kind:

==============  ===================================================================
``float``       NaN or an infinity, by name
``tuple``       items
``table``       a dict that has the key ``"#"`` itself, as pairs
``map``         a dict whose keys may be numbers, as pairs
``array``       the number of the archive member that contains it
``objects``     an array of text and numbers (labels, names of features)
``normalized``  `kernels.Normalized` of a kernel's name
``random``      a NumPy RandomState
``model``       an estimator of Budgetron: class, parameters, and learned state
``river``       a classifier of `budgetron.river`: class, parameters, and parts; also ``river regressor``
``pipeline``    a Pipeline of scikit-learn: its steps by name (see `pipelines`)
``step``        a scaler or an encoder of scikit-learn: class, parameters, and what it has learned
``same``        the number of a model or RandomState that occurs earlier in the tree
==============  ===================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from budgetron._persistence.column_transformers import (
    PARAMETERS,
    is_column_transformer,
    learned_columns,
    parts_of,
)
from budgetron._persistence.pipelines import (
    STEPS,
    check_kind,
    is_pipeline,
    learned_of,
    parameters_of,
    steps_of,
)
from budgetron._persistence.registry import Model, is_river_adapter, name_of
from budgetron.kernels import Normalized

__all__ = ["DTYPE_KINDS", "Array", "Tree", "Writer"]

# A value that JSON can represent.
Tree: TypeAlias = Any
Array: TypeAlias = NDArray[Any]

# Kinds of array elements: numbers, truth values and text, nothing that could contain an object.
DTYPE_KINDS = "biufU"

PICKLE = "use pickle or joblib for it, and load only files that you trust"

# The deepest nesting of values. One level takes up to four nested calls, and Python allows about 1000.
MOST_LEVELS = 100

# The longest integer. Python reads text of 640 digits under all settings; this integer has fewer.
MOST_BITS = 2048


class Writer:
    """Builds the tree of a value, and appends its arrays to a list; their numbers are their places in it."""

    def __init__(self, arrays: list[Array]) -> None:
        self._arrays = arrays
        self._level = 0
        # By id, with the object itself, so that the id is not reused.
        self._seen: dict[int, tuple[int, object]] = {}

    def tree(self, value: object, what: str = "the model") -> Tree:
        """Return the tree of a value; `what` names it in error messages."""
        if self._level == MOST_LEVELS:
            raise TypeError(
                f"a value in {what} is nested more than {MOST_LEVELS} levels deep, or contains itself; "
                "store values with fewer levels"
            )
        self._level += 1
        node = self._node(value, what)
        self._level -= 1
        return node

    def _node(self, value: object, what: str) -> Tree:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool):
            return value
        for kind, write in _WRITERS:
            if isinstance(value, kind):
                return write(self, value, what)
        if is_river_adapter(value):
            return self._river(value)
        if callable(value):
            raise TypeError(f"a part of {what} is a Python function, and a file contains no code; {PICKLE}")
        raise TypeError(f"a file cannot contain {type(value).__name__}, which is a part of {what}; {PICKLE}")

    def _float(self, value: float, what: str) -> Tree:
        return float(value) if isfinite(value) else {"#": "float", "value": str(float(value))}

    def _list(self, value: list[object], what: str) -> Tree:
        return [self.tree(item, what) for item in value]

    def _tuple(self, value: tuple[object, ...], what: str) -> Tree:
        return {"#": "tuple", "items": [self.tree(item, what) for item in value]}

    def _table(self, value: Mapping[Any, object], what: str) -> Tree:
        if not all(isinstance(name, str) for name in value):
            return self._map(value, what)
        if "#" in value:
            return {"#": "table", "pairs": [[name, self.tree(item, what)] for name, item in value.items()]}
        return {_text(self, name, what): self.tree(item, what) for name, item in value.items()}

    def _map(self, value: Mapping[Any, object], what: str) -> Tree:
        pairs = [[self.tree(key, what), self.tree(item, what)] for key, item in value.items()]
        if not all(isinstance(key, str | int | float) for key, _ in pairs):
            raise TypeError(f"the keys of a dict in {what} must be text or finite numbers; {PICKLE}")
        return {"#": "map", "pairs": pairs}

    def _array(self, value: Array, what: str) -> Tree:
        if value.dtype == object and value.ndim == 1:
            items = [self.tree(item, what) for item in value.tolist()]
            if all(isinstance(item, str | int | float) for item in items):
                return {"#": "objects", "items": items}
        if value.dtype.kind not in DTYPE_KINDS or value.ndim > 2 or value.dtype.itemsize == 0:
            raise TypeError(f"an array of {value.dtype} in {what} cannot be stored in a file; {PICKLE}")
        # Files are little-endian and in C order on every machine.
        self._arrays.append(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(value.shape))
        return {"#": "array", "number": len(self._arrays) - 1}

    def _normalized(self, value: Normalized, what: str) -> Tree:
        if callable(value.kernel):
            raise TypeError(
                f"the kernel of {what} is a Python function, and a file contains no code; {PICKLE}"
            )
        return {"#": "normalized", "kernel": value.kernel}

    def _once(self, value: object, write: Callable[[], Tree]) -> Tree:
        """Write an object the first time, and refer to it afterwards."""
        if id(value) in self._seen:
            return {"#": "same", "number": self._seen[id(value)][0]}
        node = write()
        self._seen[id(value)] = (len(self._seen), value)
        return node

    def _random(self, value: np.random.RandomState, what: str) -> Tree:
        def write() -> Tree:
            name, key, place, has_gauss, gauss = value.get_state(legacy=True)
            if name != "MT19937":
                raise TypeError(f"a RandomState over {name} in {what} cannot be stored in a file; {PICKLE}")
            return {
                "#": "random",
                "key": self.tree(key),
                "place": int(place),
                "has_gauss": int(has_gauss),
                "gauss": self.tree(float(gauss)),
            }

        return self._once(value, write)

    def _estimator(self, value: Model, what: str) -> Tree:
        name = name_of(value)
        if is_pipeline(value):
            return self._pipeline(value)
        if name is None:
            raise TypeError(f"{type(value).__name__} is not a class of Budgetron; {PICKLE}")
        return self._once(value, lambda: self._model(value, name))

    def _model(self, model: Model, name: str) -> Tree:
        parameters = model.get_params(deep=False)
        for parameter, value in parameters.items():
            if callable(value) and not isinstance(value, type | Normalized):
                raise TypeError(
                    f"the {parameter} of this {name} is a Python function, and a file contains no code; "
                    f"{PICKLE}"
                )
        learned = model.learned_state()
        known = {*parameters, *(learned or ()), "_codes", "_learners", "_ordered"}
        unknown = sorted(set(vars(model)) - known)
        if unknown:
            raise TypeError(f"a file of {name} has no place for {', '.join(unknown)}; {PICKLE}")
        what = f"this {name}"
        return {
            "#": "model",
            "class": name,
            "parameters": self._table(parameters, what),
            "learned": self._table(learned, what) if learned else None,
        }

    def _pipeline(self, pipeline: Any) -> Tree:
        steps = steps_of(pipeline)
        nodes = [[name, self._step(step)] for name, step in steps[:-1]]
        name, last = steps[-1]
        if name_of(last) is None:
            raise TypeError(
                f"the last step of the pipeline should be a model of Budgetron; it is {type(last).__name__}. "
                f"{PICKLE[0].upper()}{PICKLE[1:]}"
            )
        nodes.append([name, self.tree(last)])
        return {"#": "pipeline", "steps": nodes, "verbose": bool(getattr(pipeline, "verbose", False))}

    def _step(self, step: Any) -> Tree:
        if step is None or step == "passthrough":
            return step
        if is_column_transformer(step):
            return self._columns(step)
        name = type(step).__name__
        assert name in STEPS
        what = f"this {name}"
        learned = learned_of(step)
        return {
            "#": "step",
            "class": name,
            "parameters": self._table(parameters_of(step), what),
            "learned": None if learned is None else self._table(learned, what),
        }

    def _columns(self, step: Any) -> Tree:
        parts: list[Tree] = []
        for name, part, columns in parts_of(step):
            if not isinstance(part, str):
                check_kind(part, f"{name!r} of the ColumnTransformer")
            parts.append([name, part if isinstance(part, str) else self._step(part), self.tree(columns)])
        learned, what = learned_columns(step), "this ColumnTransformer"
        return {
            "#": "columns",
            "parameters": self._table({name: getattr(step, name) for name in PARAMETERS}, what),
            "parts": parts,
            "learned": None if learned is None else self._table(learned, what),
        }

    def _river(self, model: Any) -> Tree:
        name = f"{type(model).__module__.removeprefix('budgetron.')}.{type(model).__name__}"
        # Parameters first, as in the reader: models are numbered in the order in which they occur.
        parameters = self._table(
            {key: getattr(model, key) for key in model.parameter_names()}, f"this {name}"
        )
        parts = {key: self.tree(part, f"this {name}") for key, part in model.to_parts().items()}
        kind = "river" if "labels" in parts else "river regressor"
        return {"#": kind, "class": name, "parameters": parameters} | parts


def _text(writer: Writer, value: str, what: str) -> Tree:
    return str.__str__(value)  # str() of an enumeration may be its name


def _int(writer: Writer, value: int, what: str) -> Tree:
    if value.bit_length() > MOST_BITS:
        raise TypeError(
            f"an integer of {value.bit_length()} bits in {what} cannot be stored in a file; "
            f"up to {MOST_BITS} bits are possible; store it as text"
        )
    return int(value)


# The first type that matches decides.
_WRITERS: list[tuple[type | tuple[type, ...], Callable[[Writer, Any, str], Tree]]] = [
    (str, _text),
    (int, _int),
    (float, Writer._float),
    (list, Writer._list),
    (tuple, Writer._tuple),
    (dict, Writer._table),
    (np.ndarray, Writer._array),
    (Normalized, Writer._normalized),
    (np.random.RandomState, Writer._random),
    (BaseEstimator, Writer._estimator),
]
