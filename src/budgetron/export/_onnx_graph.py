"""Nodes of ONNX graphs: the scores of a learner, from standard operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from budgetron.export._scores import SMALL_EXPONENT, Expansion, Scores, gamma_and_coef0, single

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

__all__ = ["BOOL", "DOUBLE", "FLOAT", "INT64", "KERNELS", "Graph", "add_scores"]

KERNELS = ("rbf", "linear", "poly")

# Types of ONNX, as numbers.
FLOAT, INT64, BOOL, DOUBLE = 1, 7, 9, 11

# The limit of protobuf, the format of ONNX files, is 2 GB. Some of it is needed for other data. Each number
# takes 4 bytes.
MOST_NUMBERS = (2**31 - 2**20) // 4

# The largest number up to which float32 holds every whole number.
HIGHEST_DEGREE = 2**24


class Graph:
    """A graph under construction: nodes, constants, and names for the values between them."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        # The names of squared distances by the name of the rows and the identity of the supports
        self.distances: dict[tuple[str, int], str] = {}

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def number(self, value: float, dtype: type[np.floating] = np.float32) -> str:
        """Add a constant number; return its name."""
        return self.constant(np.array(value, dtype))

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        from onnx import helper

        name = output or f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def cast(self, value: str, to: int) -> str:
        """Add a conversion to another type; return the name of its output."""
        return self.add("Cast", value, to=to)

    def clip(self, value: str, largest: float) -> str:
        """Add a limit of absolute values; return the name of its output."""
        return self.add("Clip", value, self.number(-largest), self.number(largest))


def add_scores(graph: Graph, rows: str, scores: Scores) -> str:
    """Add f(x) of each output at the rows with this name, of shape (n, n_outputs)."""
    parts = []
    if scores.expansion is not None:
        parts.append(_sums(graph, rows, scores.expansion))
    if scores.slopes is not None:
        parts.append(graph.add("MatMul", rows, graph.constant(single(scores.slopes.T, "weights"))))
    if scores.intercepts is not None:
        parts.append(graph.constant(single(scores.intercepts, "intercepts")))
    total = parts[0]
    for part in parts[1:]:
        total = graph.add("Add", total, part)
    return total


def _sums(graph: Graph, rows: str, expansion: Expansion) -> str:
    """Add the sum over the supports of each output, of shape (n, n_outputs)."""
    n, features = expansion.rows.shape
    if n * features + expansion.coef.size > MOST_NUMBERS:
        raise ValueError(
            f"an ONNX file is limited to 2 GB, and this model has {n} supports of {features} features; "
            "train it with a smaller budget"
        )
    values = _rbf(graph, rows, expansion) if expansion.kernel.name == "rbf" else _poly(graph, rows, expansion)
    return graph.add("MatMul", values, graph.constant(single(expansion.coef.T, "coefficients")))


def _rbf(graph: Graph, rows: str, expansion: Expansion) -> str:
    """Add exp(-gamma ||x - s||^2) for each row and support."""
    gamma, _ = gamma_and_coef0(expansion.kernel)
    distances = _distances(graph, rows, expansion)
    if expansion.slots is not None:
        distances = graph.add("Gather", distances, graph.constant(expansion.slots), axis=1)
    exponents = graph.add("Mul", distances, graph.number(-gamma, np.float64))
    if expansion.lowest is None:
        return graph.add("Exp", graph.cast(exponents, FLOAT))
    largest = graph.add("ReduceMax", exponents, axes=[1], keepdims=1)
    below = graph.add("Sub", graph.number(SMALL_EXPONENT, np.float64), largest)
    lifted = graph.add("Add", exponents, graph.add("Max", below, graph.number(0.0, np.float64)))
    zero = graph.add("Less", exponents, graph.number(expansion.lowest, np.float64))
    return graph.add("Where", zero, graph.number(0.0), graph.add("Exp", graph.cast(lifted, FLOAT)))


def _distances(graph: Graph, rows: str, expansion: Expansion) -> str:
    """Add ||x||^2 - 2 <x, s> + ||s||^2 for each row and support, once for all experts with these supports.

    The terms may be much larger than the sum, therefore they are computed in float64.
    """
    known = (rows, id(expansion.rows))
    if known not in graph.distances:
        supports = graph.constant(single(expansion.rows, "supports").T)
        x, s = graph.cast(rows, DOUBLE), graph.cast(supports, DOUBLE)
        squares = graph.add(
            "Add",
            graph.add("ReduceSumSquare", x, axes=[1], keepdims=1),
            graph.add("ReduceSumSquare", s, axes=[0], keepdims=1),
        )
        products = graph.add("Mul", graph.add("MatMul", x, s), graph.number(2.0, np.float64))
        graph.distances[known] = graph.add("Sub", squares, products)
    return graph.distances[known]


def _poly(graph: Graph, rows: str, expansion: Expansion) -> str:
    """Add (gamma <x, s> + coef0) ** degree for each row and support."""
    kernel = expansion.kernel
    if kernel.degree > HIGHEST_DEGREE:
        raise ValueError(f"degree must be at most {HIGHEST_DEGREE} in an ONNX file; got {kernel.degree}")
    gamma, coef0 = gamma_and_coef0(kernel)
    products = graph.add("MatMul", rows, graph.constant(single(expansion.rows, "supports").T))
    base = graph.add("Add", graph.add("Mul", products, graph.number(gamma)), graph.number(coef0))
    return graph.add("Pow", base, graph.number(kernel.degree))
