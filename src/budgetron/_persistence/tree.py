"""Models as trees of plain values and arrays, and back.

A tree is what JSON can hold; whatever else there is becomes a table with the key ``"#"``:

==============  ===================================================================
``float``       NaN or an infinity, by name
``tuple``       items
``table``       a dict that has the key ``"#"`` itself, as pairs
``map``         a dict by labels, which may be numbers, as pairs
``array``       the number of the member that holds it
``objects``     an array of Python's own text and numbers (labels, names of features)
``normalized``  `kernels.Normalized` of a kernel's name
``random``      a NumPy RandomState
``model``       an estimator of Budgetron's: class, parameters, and what it learned
``river``       a classifier of `budgetron.river`: class, parameters, and what it is made of
``same``        the model or RandomState of this number, which stands earlier in the tree
==============  ===================================================================

Classes are looked up in `CLASSES` and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import inf, isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron import batch, calibration, experts, kernelized, linear
from budgetron._base.fitted_estimator import require_no_arrays
from budgetron._util.checks import (
    MOST_ROUNDS,
    require,
    require_array,
    require_float,
    require_int,
    require_names,
)
from budgetron.kernels import NAMES, Normalized
from budgetron.portfolio import BudgetClassifier

__all__ = ["CLASSES", "Reader", "Writer", "is_river"]

CLASSES: dict[str, type[Any]] = {
    **{cls.__name__: cls for cls in kernelized.learners()},
    **{f"linear.{cls.__name__}": cls for cls in linear.learners()},
    **{f"batch.{name}": getattr(batch, name) for name in batch.__all__},
    "CalibratedClassifier": calibration.CalibratedClassifier,
    "BudgetClassifier": BudgetClassifier,
    **{f"experts.{name}": getattr(experts, name) for name in experts.__all__ if name != "ExpertTrace"},
}

# Numbers, truth and text: nothing that could hold an object.
KINDS = "biufU"

FLOATS = {"nan": nan, "inf": inf, "-inf": -inf}

PICKLE = "use pickle or joblib for it, and load only files that you trust"


class Writer:
    """Makes the tree of a value, and gathers its arrays in `arrays`, in the order of their numbers."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._seen: dict[int, tuple[int, Any]] = {}  # the object too, lest its id be given away

    def tree(self, value: Any, what: str = "the model") -> Any:
        """The tree of a value; `what` it is, for messages."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value) if isfinite(value) else {"#": "float", "value": str(float(value))}
        if isinstance(value, list):
            return [self.tree(item, what) for item in value]
        if isinstance(value, tuple):
            return {"#": "tuple", "items": [self.tree(item, what) for item in value]}
        if isinstance(value, dict):
            return self._table(value, what)
        if isinstance(value, np.ndarray):
            return self._array(value, what)
        if isinstance(value, Normalized):
            if callable(value.kernel):
                raise TypeError(
                    f"the kernel of {what} is a Python function, and a file holds no code; {PICKLE}"
                )
            return {"#": "normalized", "kernel": value.kernel}
        if isinstance(value, np.random.RandomState) or type(value) in CLASSES.values():
            if id(value) in self._seen:
                return {"#": "same", "number": self._seen[id(value)][0]}
            node = (
                self._random(value, what) if isinstance(value, np.random.RandomState) else self._model(value)
            )
            self._seen[id(value)] = (len(self._seen), value)
            return node
        if is_river(value):
            return self._river(value)
        if hasattr(value, "get_params"):
            raise TypeError(f"{type(value).__name__} is not a class of Budgetron's own; {PICKLE}")
        if callable(value):
            raise TypeError(f"a part of {what} is a Python function, and a file holds no code; {PICKLE}")
        raise TypeError(f"a file cannot hold {type(value).__name__}, which is a part of {what}; {PICKLE}")

    def _table(self, value: dict[Any, Any], what: str) -> Any:
        if not all(isinstance(name, str) for name in value):
            return self._map(value, what)
        if "#" in value:
            return {"#": "table", "pairs": [[name, self.tree(item, what)] for name, item in value.items()]}
        return {str(name): self.tree(item, what) for name, item in value.items()}

    def _map(self, value: dict[Any, Any], what: str) -> Any:
        pairs = [[self.tree(key, what), self.tree(item, what)] for key, item in value.items()]
        if not all(isinstance(key, str | int | float) for key, _ in pairs):
            raise TypeError(f"the keys of a dict in {what} must be text or numbers; {PICKLE}")
        return {"#": "map", "pairs": pairs}

    def _array(self, value: NDArray[Any], what: str) -> Any:
        if value.dtype == object and value.ndim == 1:
            items = [self.tree(item, what) for item in value.tolist()]
            if all(isinstance(item, str | int | float) for item in items):
                return {"#": "objects", "items": items}
        if value.dtype.kind not in KINDS or value.ndim > 2 or value.dtype.itemsize == 0:
            raise TypeError(f"an array of {value.dtype} in {what} cannot be kept in a file; {PICKLE}")
        # Files are little-endian and in C order on every machine.
        self.arrays.append(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(value.shape))
        return {"#": "array", "number": len(self.arrays) - 1}

    def _random(self, value: np.random.RandomState, what: str) -> Any:
        name, key, place, has_gauss, gauss = value.get_state(legacy=True)
        if name != "MT19937":
            raise TypeError(f"a RandomState over {name} in {what} cannot be kept in a file; {PICKLE}")
        return {
            "#": "random",
            "key": self.tree(key),
            "place": int(place),
            "has_gauss": int(has_gauss),
            "gauss": self.tree(float(gauss)),
        }

    def _model(self, model: Any) -> Any:
        name = next(name for name, cls in CLASSES.items() if cls is type(model))
        parameters = model.get_params(deep=False)
        for parameter, value in parameters.items():
            if callable(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
                raise TypeError(
                    f"the {parameter} of this {name} is a Python function, and a file holds no code; {PICKLE}"
                )
        learned = model.learned_state()
        known = {*parameters, *(learned or ()), "_codes", "_learners"}
        odd = sorted(set(vars(model)) - known)
        if odd:
            raise TypeError(f"a file of {name} has no place for {', '.join(odd)}; {PICKLE}")
        what = f"this {name}"
        return {
            "#": "model",
            "class": name,
            "parameters": self._table(parameters, what),
            "learned": self._table(learned, what) if learned else None,
        }

    def _river(self, model: Any) -> Any:
        name = f"{type(model).__module__.removeprefix('budgetron.')}.{type(model).__name__}"
        parameters = {key: getattr(model, key) for key in model._signature.parameters}
        parts = {key: self.tree(part, f"this {name}") for key, part in model._to_parts().items()}
        return {"#": "river", "class": name, "parameters": self._table(parameters, f"this {name}")} | parts


class Reader:
    """Makes the value of a tree; arrays come from `fetch`, each once."""

    def __init__(self, fetch: Callable[[int], NDArray[Any]]) -> None:
        self._fetch = fetch
        self._fetched: set[int] = set()
        self._made: list[Any] = []

    def value(self, node: Any) -> Any:
        """The value of a tree. Whatever is wrong with it raises an exception."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "#" not in node:
            return {name: self.value(item) for name, item in node.items()}
        kind = node["#"]
        require(isinstance(kind, str) and kind in _KINDS, "an unknown kind of thing")
        make, parts = _KINDS[kind]
        require_names(node, {"#", *parts}, kind)
        return make(self, *(node[name] for name in parts))

    def _float(self, value: Any) -> float:
        require(isinstance(value, str) and value in FLOATS, "an unknown float")
        return FLOATS[value]

    def _tuple(self, items: Any) -> tuple[Any, ...]:
        require(isinstance(items, list), "a tuple should have a list of items")
        return tuple(self.value(item) for item in items)

    def _pairs(self, pairs: Any) -> dict[str, Any]:
        require(isinstance(pairs, list), "a table should have a list of pairs")
        for pair in pairs:
            require(
                isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str),
                "a table without names",
            )
        return {name: self.value(item) for name, item in pairs}

    def _map(self, pairs: Any) -> dict[Any, Any]:
        require(isinstance(pairs, list), "a map should have a list of pairs")
        for pair in pairs:
            require(
                isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str | int | float),
                "a map by something else than text or numbers",
            )
        return {key: self.value(item) for key, item in pairs}

    def _array(self, place: Any) -> NDArray[Any]:
        require_int(place, 0, MOST_ROUNDS, "number of an array")
        # Two owners of one array would write over each other.
        require(place not in self._fetched, f"array {place} should be used once")
        self._fetched.add(place)
        return self._fetch(place)

    def _objects(self, items: Any) -> NDArray[Any]:
        require(isinstance(items, list), "objects should be a list of items")
        values = [self.value(item) for item in items]
        require(
            all(isinstance(value, str | int | float) for value in values), "objects should be text or numbers"
        )
        made = np.empty(len(values), object)
        made[:] = values
        return made

    def _normalized(self, kernel: Any) -> Normalized:
        require(isinstance(kernel, str) and kernel in NAMES, "an unknown kernel")
        return Normalized(kernel)

    def _random(self, key: Any, place: Any, has_gauss: Any, gauss: Any) -> np.random.RandomState:
        words = require_array(self.value(key), np.uint32, (624,), "key of the RandomState")
        require(words.any(), "key of the RandomState should not be 0")
        random = np.random.RandomState(0)
        spare = require_float(self.value(gauss), "spare of the RandomState")
        at = require_int(place, 0, 624, "place of the RandomState")
        random.set_state(
            ("MT19937", words, at, require_int(has_gauss, 0, 1, "flag of the RandomState"), spare)
        )
        self._made.append(random)
        return random

    def _same(self, place: Any) -> Any:
        return self._made[require_int(place, 0, len(self._made) - 1, "number of a model")]

    def _model(self, name: Any, parameters: Any, learned: Any) -> Any:
        require(isinstance(name, str) and name in CLASSES, f"{str(name)[:60]!r} is no class of this version")
        cls = CLASSES[name]
        given = require_names(self.value(parameters), set(cls._get_param_names()), f"parameters of {name}")
        require_no_arrays(given, f"parameters of {name}")
        model = cls(**given)
        if learned is not None:
            found = self.value(learned)
            require(isinstance(found, dict), f"{name} should have learned a table of names")
            model.check_params()
            model.set_learned_state(found)
        self._made.append(model)
        return model

    def _river(self, name: Any, parameters: Any, *parts: Any) -> Any:
        faces = _river_faces()
        require(isinstance(name, str) and name in faces, f"{str(name)[:60]!r} is no class of this version")
        given = require_names(
            self.value(parameters), set(faces[name]._signature.parameters), f"parameters of {name}"
        )
        model = faces[name](**given)
        model._from_parts(*(self.value(part) for part in parts))
        return model


_KINDS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "float": (Reader._float, ("value",)),
    "tuple": (Reader._tuple, ("items",)),
    "table": (Reader._pairs, ("pairs",)),
    "map": (Reader._map, ("pairs",)),
    "array": (Reader._array, ("number",)),
    "objects": (Reader._objects, ("items",)),
    "normalized": (Reader._normalized, ("kernel",)),
    "random": (Reader._random, ("key", "place", "has_gauss", "gauss")),
    "model": (Reader._model, ("class", "parameters", "learned")),
    "river": (Reader._river, ("class", "parameters", "model", "features", "labels", "sigmoids")),
    "same": (Reader._same, ("number",)),
}


def is_river(value: Any) -> bool:
    """Whether this is a classifier of `budgetron.river`, which is not imported for that."""
    module = sys.modules.get("budgetron.river")
    return module is not None and isinstance(value, module.RiverClassifier)


def _river_faces() -> dict[str, Any]:
    try:
        from budgetron import river
    except ImportError as error:
        raise ValueError(str(error)) from error
    own = {f"river.{name}": getattr(river, name) for name in river.__all__ if name[0].isupper()}
    own.pop("river.RiverClassifier")
    return own | {f"river.linear.{name}": getattr(river.linear, name) for name in river.linear.__all__}
