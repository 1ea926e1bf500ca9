"""Nodes of ONNX graphs: margins from the scores of experts, as `_core.combination` computes them.

Votes are in float64, because ties are decided by a fixed rule and not by rounding.
"""

from __future__ import annotations

import numpy as np

from budgetron.export._onnx_graph import BOOL, DOUBLE, FLOAT, Graph, add_scores
from budgetron.export._scores import LARGEST_U, VISIBLE_LEAD, Combined, Scaling, Vector, single
from budgetron.portfolio._frozen import LEAD, TIE

__all__ = ["add_combination"]


def add_combination(graph: Graph, rows: str, combined: Combined) -> str:
    """Add the margins of the rows with this name, of shape (n, n_outputs)."""
    scores = _expert_scores(graph, rows, combined)
    margins = (_two_classes if combined.outputs == 1 else _more_classes)(graph, scores, combined)
    return graph.cast(margins, FLOAT)


def _expert_scores(graph: Graph, rows: str, combined: Combined) -> list[str]:
    """Add the scores of each expert, of shape (n, n_outputs) each."""
    standardised = rows
    if combined.scaling is not None:
        rows = graph.add("Sub", rows, graph.constant(single(combined.scaling.high, "means")))
        standardised = _standardised(graph, rows, combined.scaling)
    views: dict[tuple[str, bytes], str] = {}
    names = []
    for expert in combined.experts:
        seen = standardised if expert.standardised else rows
        if expert.scales is not None:
            view = seen, expert.scales.tobytes()
            if view not in views:
                views[view] = graph.add("Mul", seen, graph.constant(single(expert.scales, "scales")))
            seen = views[view]
        names.append(add_scores(graph, seen, expert.scores))
    return names


def _standardised(graph: Graph, centred: str, scaling: Scaling) -> str:
    """Add standardised features, from those minus the mean in float32."""
    low, deviation = (
        graph.constant(single(values, "deviations")) for values in (scaling.low, scaling.deviation)
    )
    delta = graph.add("Sub", centred, low)
    u = graph.clip(graph.add("Div", delta, deviation), LARGEST_U)
    square = graph.add("Mul", graph.add("Mul", u, u), graph.number(scaling.bend))
    root = graph.add("Sqrt", graph.add("Add", square, graph.number(1.0)))
    return graph.add("Div", graph.add("Mul", u, graph.number(scaling.factor)), root)


def _two_classes(graph: Graph, scores: list[str], combined: Combined) -> str:
    """Add the margin of two classes. A score above 0 is a vote for the second."""
    of_experts = graph.add("Concat", *scores, axis=1)
    weights = graph.constant(single(combined.weights[:, 0].T, "weights of the combiners"))
    constants = graph.constant(single(combined.constants.T, "constants of the combiners"))
    of_combiners = graph.add("Add", graph.add("MatMul", graph.add("Tanh", of_experts), weights), constants)
    above = graph.add("Greater", graph.add("Concat", of_combiners, of_experts, axis=1), graph.number(0.0))
    votes = graph.cast(above, DOUBLE)
    # The share of the second class minus that of the first
    lead = graph.add("MatMul", votes, graph.constant(2.0 * combined.shares[:, None]))
    lead = graph.add("Sub", lead, graph.number(1.0, np.float64))
    # In a tie the first combiner decides.
    first = _signs(graph, graph.add("Gather", votes, graph.constant(np.array([0])), axis=1))
    tie_break = graph.add("Mul", first, graph.number(TIE, np.float64))
    second_wins = graph.add("Greater", graph.add("Add", lead, tie_break), graph.number(0.0, np.float64))
    winner = graph.cast(second_wins, DOUBLE)
    blended = graph.add("MatMul", of_combiners, graph.constant(single(combined.blend[:, None], "shares")))
    agreement = graph.add("Mul", graph.cast(graph.add("Tanh", blended), DOUBLE), _signs(graph, winner))
    factor = _affine(graph, agreement, 0.45, 0.55)
    lead = graph.add(
        "Where",
        second_wins,
        graph.add("Max", lead, graph.number(LEAD, np.float64)),
        graph.add("Min", lead, graph.number(-LEAD, np.float64)),
    )
    return graph.add("Mul", lead, factor)


def _more_classes(graph: Graph, scores: list[str], combined: Combined) -> str:
    """Add the margins of more than two classes. The largest score of a voter is its vote."""
    of_experts = _stacked(graph, scores)  # (n, n_experts, n_classes)
    bounded = graph.add("Tanh", of_experts)
    of_combiners = _stacked(
        graph,
        [
            _weighted(graph, bounded, weights, constants)
            for weights, constants in zip(combined.weights, combined.constants, strict=True)
        ],
    )
    voters = graph.add("Concat", of_combiners, of_experts, axis=1)
    votes = _one_hot(graph, graph.add("ArgMax", voters, axis=2, keepdims=1), combined.outputs)
    first = graph.add("Gather", votes, graph.constant(np.array(0)), axis=1)
    totals = _sum(graph, votes, graph.constant(combined.shares[:, None]))
    # Of the classes with the most votes, the first combiner's class wins, otherwise the first class.
    most = graph.add("ReduceMax", totals, axes=[1], keepdims=1)
    behind = graph.add("Sub", most, totals)
    leading = graph.cast(graph.add("Less", behind, graph.number(TIE, np.float64)), DOUBLE)
    ranks = graph.add("Add", leading, graph.add("Mul", leading, first))
    winner = graph.add("ArgMax", ranks, axis=1, keepdims=1)
    blended = _sum(graph, of_combiners, graph.constant(single(combined.blend[:, None], "shares")))
    agreement = graph.cast(graph.add("Tanh", blended), DOUBLE)
    margins = graph.add("Add", totals, _affine(graph, agreement, 0.5, -0.5))
    won = _one_hot(graph, winner, combined.outputs)
    others = graph.add("Sub", margins, graph.add("Mul", won, graph.number(4.0, np.float64)))
    largest = graph.add("ReduceMax", others, axes=[1], keepdims=1)
    lifted = graph.add("Max", margins, _affine(graph, largest, 1.0, VISIBLE_LEAD))
    return graph.add("Where", graph.cast(won, BOOL), lifted, margins)


def _stacked(graph: Graph, parts: list[str]) -> str:
    """Add values of shape (n, n_parts, n_classes), from parts of shape (n, n_classes)."""
    axis = graph.constant(np.array([1]))
    return graph.add("Concat", *(graph.add("Unsqueeze", part, axis) for part in parts), axis=1)


def _weighted(graph: Graph, values: str, weights: Vector, constants: Vector) -> str:
    """Add sum_i weights[c, i] values[i, c] + constants[c] for each row and class c."""
    total = _sum(graph, values, graph.constant(single(weights.T, "weights of the combiners")))
    return graph.add("Add", total, graph.constant(single(constants, "constants of the combiners")))


def _sum(graph: Graph, values: str, factors: str) -> str:
    """Add sum_i factors[i] values[i] for each row, from values of shape (n, n_parts, n_classes)."""
    # Not a matrix product: onnxruntime does not accept one with no rows here.
    products = graph.add("Mul", values, factors)
    return graph.add("ReduceSum", products, graph.constant(np.array([1])), keepdims=0)


def _one_hot(graph: Graph, codes: str, classes: int) -> str:
    """Add 1.0 at the code and 0.0 elsewhere along the last axis, where the codes have the length 1."""
    return graph.cast(graph.add("Equal", codes, graph.constant(np.arange(classes))), DOUBLE)


def _signs(graph: Graph, bits: str) -> str:
    """Add 1.0 for 1.0, and -1.0 for 0.0."""
    return _affine(graph, bits, 2.0, -1.0)


def _affine(graph: Graph, value: str, factor: float, constant: float) -> str:
    """Add factor * value + constant, in float64."""
    scaled = graph.add("Mul", value, graph.number(factor, np.float64))
    return graph.add("Add", scaled, graph.number(constant, np.float64))
