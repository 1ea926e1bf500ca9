"""Values from trees; see `writer` for the form of a tree."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np

from budgetron._persistence.column_transformers import make_columns
from budgetron._persistence.pipelines import make_pipeline_of, make_step
from budgetron._persistence.registry import CLASSES, Model, river_adapters
from budgetron._persistence.writer import Array, Tree
from budgetron._util.checks import (
    MOST_ROUNDS,
    require,
    require_array,
    require_float,
    require_int,
    require_names,
    require_no_arrays,
)
from budgetron.kernels import NAMES, Normalized

__all__ = ["Reader"]

# The parts of a classifier, and of a regressor or a detector, of `budgetron.river`.
RIVER_PARTS = ("model", "features", "labels", "sigmoids")
REGRESSOR_PARTS = ("model", "features")

FLOATS = {"nan": nan, "inf": inf, "-inf": -inf}


class Reader:
    """Builds the value of a tree; `fetch` returns an array by its number."""

    def __init__(self, fetch: Callable[[int], Array]) -> None:
        self._fetch = fetch
        self._fetched: set[int] = set()
        self._made: list[object] = []

    def value(self, node: Tree) -> Any:
        """Return the value of a tree. An invalid tree raises an exception of any kind."""
        if isinstance(node, list):
            return [self.value(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "#" not in node:
            return {name: self.value(item) for name, item in node.items()}
        kind = node["#"]
        require(isinstance(kind, str) and kind in _READERS, "unknown kind of value")
        make, parts = _READERS[kind]
        require_names(node, {"#", *parts}, kind)
        return make(self, *(node[name] for name in parts))

    def _float(self, value: Tree) -> float:
        require(isinstance(value, str) and value in FLOATS, "unknown float")
        return FLOATS[value]

    def _tuple(self, items: Tree) -> tuple[object, ...]:
        require(isinstance(items, list), "a tuple should have a list of items")
        return tuple(self.value(item) for item in items)

    def _table(self, pairs: Tree) -> dict[str, object]:
        self._check_pairs(pairs, (str,), "a table should have pairs of a name and a value")
        return {name: self.value(item) for name, item in pairs}

    def _map(self, pairs: Tree) -> dict[object, object]:
        self._check_pairs(pairs, (str, int, float), "a map should have pairs of text or a number and a value")
        return {key: self.value(item) for key, item in pairs}

    def _check_pairs(self, pairs: Tree, keys: tuple[type, ...], message: str) -> None:
        require(isinstance(pairs, list), message)
        for pair in pairs:
            require(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], keys), message)

    def _array(self, number: Tree) -> Array:
        place = require_int(number, 0, MOST_ROUNDS, "number of an array")
        # Two owners of one array would overwrite each other.
        require(place not in self._fetched, f"array {place} should be used once")
        self._fetched.add(place)
        return self._fetch(place)

    def _objects(self, items: Tree) -> Array:
        require(isinstance(items, list), "objects should be a list of items")
        values = [self.value(item) for item in items]
        require(
            all(isinstance(value, str | int | float) for value in values), "objects should be text or numbers"
        )
        array = np.empty(len(values), object)
        array[:] = values
        return array

    def _normalized(self, kernel: Tree) -> Normalized:
        require(isinstance(kernel, str) and kernel in NAMES, "unknown kernel")
        return Normalized(kernel)

    def _random(self, key: Tree, place: Tree, has_gauss: Tree, gauss: Tree) -> np.random.RandomState:
        words = require_array(self.value(key), np.uint32, (624,), "key of the RandomState")
        require(words.any(), "key of the RandomState should not be 0")
        random = np.random.RandomState(0)
        spare = require_float(self.value(gauss), "spare of the RandomState")
        at = require_int(place, 0, 624, "place of the RandomState")
        flag = require_int(has_gauss, 0, 1, "flag of the RandomState")
        random.set_state(("MT19937", words, at, flag, spare))
        self._made.append(random)
        return random

    def _same(self, number: Tree) -> object:
        return self._made[require_int(number, 0, len(self._made) - 1, "number of a model")]

    def _model(self, name: Tree, parameters: Tree, learned: Tree) -> Model:
        require(isinstance(name, str) and name in CLASSES, f"{str(name)[:60]!r} is no class of this version")
        cls = CLASSES[name]
        given = require_names(self.value(parameters), set(cls.parameter_names()), f"parameters of {name}")
        require_no_arrays(given, f"parameters of {name}")
        model = cls(**given)
        if learned is not None:
            found = self.value(learned)
            require(isinstance(found, dict), f"{name} should have learned a table of names")
            model.check_params()
            model.set_learned_state(found)
        self._made.append(model)
        return model

    def _river(self, name: Tree, parameters: Tree, *parts: Tree) -> object:
        adapters: dict[str, Any] = river_adapters()
        require(isinstance(name, str) and name in adapters, f"{str(name)[:60]!r} is no class of this version")
        cls = adapters[name]
        given = require_names(self.value(parameters), set(cls.parameter_names()), f"parameters of {name}")
        names = REGRESSOR_PARTS if len(parts) == len(REGRESSOR_PARTS) else RIVER_PARTS
        named = zip(names, parts, strict=True)
        model: object = cls.from_parts(given, **{part: self.value(node) for part, node in named})
        return model

    def _pipeline(self, steps: Tree, verbose: Tree) -> object:
        return make_pipeline_of(self.value(steps), verbose)

    def _columns(self, parameters: Tree, parts: Tree, learned: Tree) -> object:
        found = None if learned is None else self.value(learned)
        return make_columns(self.value(parameters), self.value(parts), found)

    def _step(self, name: Tree, parameters: Tree, learned: Tree) -> object:
        return make_step(name, self.value(parameters), None if learned is None else self.value(learned))


_READERS: dict[str, tuple[Callable[..., object], tuple[str, ...]]] = {
    "float": (Reader._float, ("value",)),
    "tuple": (Reader._tuple, ("items",)),
    "table": (Reader._table, ("pairs",)),
    "map": (Reader._map, ("pairs",)),
    "array": (Reader._array, ("number",)),
    "objects": (Reader._objects, ("items",)),
    "normalized": (Reader._normalized, ("kernel",)),
    "random": (Reader._random, ("key", "place", "has_gauss", "gauss")),
    "model": (Reader._model, ("class", "parameters", "learned")),
    "river": (Reader._river, ("class", "parameters", *RIVER_PARTS)),
    "river regressor": (Reader._river, ("class", "parameters", *REGRESSOR_PARTS)),
    "same": (Reader._same, ("number",)),
    "pipeline": (Reader._pipeline, ("steps", "verbose")),
    "step": (Reader._step, ("class", "parameters", "learned")),
    "columns": (Reader._columns, ("parameters", "parts", "learned")),
}
