"""Export models as ONNX files with standard operators."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import overload

import numpy as np

from budgetron._util.atomic import atomic_write
from budgetron.export._onnx_combination import add_combination
from budgetron.export._onnx_graph import INT64, KERNELS, Graph, add_scores
from budgetron.export._pipeline import onnx_of_pipelines
from budgetron.export._predictor import predictor_of
from budgetron.export._scores import LARGEST_Z, Combined, Predictor, Vector, single

__all__ = ["onnx"]

Path = str | os.PathLike[str]

# Versions that runtimes since 2021 support. Later versions change nothing that is used here.
OPSET, IR_VERSION = 13, 8


@overload
def onnx(model: object, path: None = None) -> bytes: ...
@overload
def onnx(model: object, path: Path) -> None: ...
@onnx_of_pipelines
def onnx(model: object, path: Path | None = None) -> bytes | None:
    """Export a model as an ONNX file.

    Use it for services, phones, browsers and other languages that have an ONNX runtime. Exporting needs
    ``pip install 'budgetron[onnx]'``; running the file does not.

    Parameters
    ----------
    model : estimator
        A fitted linear learner, a kernel learner with the kernel "rbf", "linear" or "poly", a
        `BudgetClassifier`, or an `AveragedClassifier` or `CalibratedClassifier` of such a learner.
    path : str or path-like, optional
        The file to write. It is written atomically.

    Returns
    -------
    bytes or None
        The content of the file, if there is no `path`. The same model gives the same bytes.

    Raises
    ------
    TypeError
        If a model of this kind cannot be exported. The message states the reason.
    ValueError
        If the model has not learned anything yet, or has numbers that are too large for float32.

    Notes
    -----
    The input is ``X``, float32 of shape (n, n_features). The outputs are

    - ``label``, of shape (n,): int64, or strings if the labels are text;
    - ``scores``, the values of `decision_function`, of shape (n, 1) for two classes, otherwise
      (n, n_classes);
    - ``probabilities``, of shape (n, n_classes), only for a model with `predict_proba`: a
      `BudgetClassifier`, a `CalibratedClassifier`, or a `SecondOrderProjectron` or `linear.AROW` with the
      logistic loss.

    Scores agree with those of the model to float32 accuracy. Labels agree except where scores are that close
    to a tie; of a `BudgetClassifier`, scores and labels agree except where an expert's scores are.

    Kernel values are computed by matrix products. Squared distances for the kernel "rbf" and the votes of a
    `BudgetClassifier` are computed in float64, all else in float32. Linear learners, the kernel "linear" and
    the linear part of a `SecondOrderProjectron` become one matrix product. The file has each support once,
    with all features, also if several classes or experts use it.

    Examples
    --------
    >>> import budgetron
    >>> model = budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> content = budgetron.export.onnx(model)
    >>> type(content)
    <class 'bytes'>
    """
    content = _model(type(model).__name__, predictor_of(model, KERNELS, "an ONNX file"))
    if path is None:
        return content
    with atomic_write(path) as file:
        file.write(content)
    return None


def _model(name: str, predictor: Predictor) -> bytes:
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise ImportError("export.onnx needs onnx: pip install 'budgetron[onnx]'") from None
    graph, scores = Graph(), predictor.scores
    odds = _add_decisions(graph, predictor)
    _add_label(graph, predictor)
    text = isinstance(predictor.labels[0], str)
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING if text else TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", scores.outputs]),
    ]
    if predictor.probabilities is not None:
        _add_probabilities(graph, predictor, odds)
        shape = ["n", len(predictor.labels)]
        outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape))
    X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", scores.features])
    proto = helper.make_model(
        helper.make_graph(graph.nodes, name, [X], outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="budgetron",
        producer_version=version("budgetron"),
    )
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


def _add_decisions(graph: Graph, predictor: Predictor) -> str:
    """Add "scores"; return the name of the log-odds, from which probabilities are computed."""
    if isinstance(predictor.scores, Combined):
        decisions = add_combination(graph, "X", predictor.scores)
    else:
        decisions = add_scores(graph, "X", predictor.scores)
    odds = decisions if predictor.sigmoids is None else _log_odds(graph, decisions, predictor.sigmoids)
    if predictor.predicts_by_log_odds:
        return graph.add("Identity", odds, output="scores")
    graph.add("Identity", decisions, output="scores")
    if predictor.sigmoids is not None and predictor.scores.outputs == 1:
        # The predicted class is the more probable one.
        zero = graph.number(0.0)
        same = graph.add("Equal", graph.add("Greater", odds, zero), graph.add("Greater", "scores", zero))
        odds = graph.add("Where", same, odds, zero)
    return odds


def _log_odds(graph: Graph, decisions: str, sigmoids: Vector) -> str:
    """Add a z + b, where z is the score divided by its root mean square, clipped to [-10, 10]."""
    slope, offset, root = (graph.constant(row) for row in single(sigmoids.T, "sigmoids"))
    z = graph.clip(graph.add("Div", decisions, root), LARGEST_Z)
    return graph.add("Add", graph.add("Mul", z, slope), offset)


def _add_label(graph: Graph, predictor: Predictor) -> None:
    """Add the label: of two classes the second if the score is above 0, otherwise the largest score."""
    if predictor.scores.outputs > 1:
        code = graph.add("ArgMax", "scores", axis=1, keepdims=0)
    else:
        above = graph.add("Greater", "scores", graph.number(0.0))
        code = graph.add("Squeeze", graph.cast(above, INT64), graph.constant(np.array([1])))
    text = isinstance(predictor.labels[0], str)
    labels = graph.constant(np.array(predictor.labels, object if text else np.int64))
    graph.add("Gather", labels, code, output="label")


def _add_probabilities(graph: Graph, predictor: Predictor, odds: str) -> None:
    """Add the probability of each class."""
    if predictor.scores.outputs == 1:
        no = graph.add("Sigmoid", graph.add("Neg", odds))
        graph.add("Concat", no, graph.add("Sigmoid", odds), axis=1, output="probabilities")
        return
    logarithms = odds
    if predictor.probabilities == "ratio":
        # Sigmoids divided by their sum. Computed from logarithms, because in float32 all sigmoids may be 0.
        logarithms = graph.add("Neg", graph.add("Softplus", graph.add("Neg", odds)))
    graph.add("Softmax", logarithms, axis=1, output="probabilities")
