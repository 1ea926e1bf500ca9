"""Export models as ONNX files with standard operators."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from budgetron._core.kernel import Kernel
from budgetron._util.atomic import atomic_write
from budgetron._util.types import Rows
from budgetron.export._scores import (
    LARGEST_Z,
    Expansion,
    Predictor,
    Scores,
    gamma_and_coef0,
    predictor_of,
    single,
)

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

__all__ = ["onnx"]

Path = str | os.PathLike[str]

# Versions that runtimes since 2021 support. Later versions change nothing that is used here.
OPSET, ML_OPSET, IR_VERSION = 13, 1, 8
KERNELS = {"rbf": "RBF", "linear": "LINEAR", "poly": "POLY"}

# The limit of protobuf, the format of ONNX files, is 2 GB. Some of it is needed for other data. Each number
# of an attribute takes 5 bytes, because it has a tag.
MOST_NUMBERS = (2**31 - 2**20) // 5

# The largest number up to which float32 holds every whole number.
HIGHEST_DEGREE = 2**24


@overload
def onnx(model: object, path: None = None) -> bytes: ...
@overload
def onnx(model: object, path: Path) -> None: ...
def onnx(model: object, path: Path | None = None) -> bytes | None:
    """Export a model as an ONNX file.

    Use it for services, phones, browsers and other languages that have an ONNX runtime. Exporting needs
    ``pip install 'budgetron[onnx]'``; running the file does not.

    Parameters
    ----------
    model : estimator
        A fitted linear learner, a kernel learner with the kernel "rbf", "linear" or "poly", or an
        `AveragedClassifier` or `CalibratedClassifier` of such a learner.
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
    - ``scores``, the values of `decision_function`, of shape (n, 1) for two classes, otherwise (n,
    n_classes);
    - ``probabilities``, of shape (n, n_classes), only for a model with `predict_proba`: a
      `CalibratedClassifier`, or a `SecondOrderProjectron` with the logistic loss.

    Scores agree with those of the model to float32 accuracy. Labels agree except where scores are that close
    to a tie.

    Kernel learners become one ``SVMRegressor`` per output. Linear learners, the kernel "linear" and the
    linear part of a `SecondOrderProjectron` become one matrix product. The file has the supports of each
    class with all features, also if classes share supports or the model stores only non-zeros.

    Examples
    --------
    >>> import budgetron
    >>> model = budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> content = budgetron.export.onnx(model)
    >>> type(content)
    <class 'bytes'>
    """
    content = _model(type(model).__name__, predictor_of(model, tuple(KERNELS), "an ONNX file"))
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
    graph, scores = _Graph(), predictor.scores
    decisions = _decisions(graph, "X", scores)
    if predictor.sigmoids is not None:
        decisions = _log_odds(graph, decisions, predictor.sigmoids)
    graph.add("Identity", decisions, output="scores")
    _add_label(graph, predictor)
    text = isinstance(predictor.labels[0], str)
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING if text else TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", scores.outputs]),
    ]
    if predictor.probabilities is not None:
        _add_probabilities(graph, predictor)
        shape = ["n", len(predictor.labels)]
        outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape))
    X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", scores.features])
    proto = helper.make_model(
        helper.make_graph(graph.nodes, name, [X], outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=IR_VERSION,
        producer_name="budgetron",
        producer_version=version("budgetron"),
    )
    content: bytes = proto.SerializeToString(deterministic=True)
    return content


class _Graph:
    """A graph under construction: nodes, constants, and names for the values between them."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def constant(self, values: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        from onnx import helper

        name = output or f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def _decisions(graph: _Graph, rows: str, scores: Scores) -> str:
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


def _sums(graph: _Graph, rows: str, expansion: Expansion) -> str:
    """Add the sum over the supports of each output, of shape (n, n_outputs)."""
    # Each output needs only its own supports, but at least one: without supports the operator means a linear
    # model.
    supports = [np.flatnonzero(coef) for coef in expansion.coef]
    supports = [slots if len(slots) else np.array([0]) for slots in supports]
    total, features = sum(map(len, supports)), expansion.rows.shape[1]
    if total * (features + 1) > MOST_NUMBERS:
        raise ValueError(
            f"an ONNX file is limited to 2 GB, and this model has {total} supports of {features} features; "
            "train it with a smaller budget"
        )
    columns = [
        _sum(graph, rows, expansion.kernel, expansion.rows[slots], coef[slots])
        for coef, slots in zip(expansion.coef, supports, strict=True)
    ]
    return columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)


def _sum(graph: _Graph, rows: str, kernel: Kernel, supports: Rows, coef: NDArray[np.float64]) -> str:
    """Add the sum over these supports, of shape (n, 1)."""
    if kernel.degree > HIGHEST_DEGREE:
        raise ValueError(f"degree must be at most {HIGHEST_DEGREE} in an ONNX file; got {kernel.degree}")
    gamma, coef0 = gamma_and_coef0(kernel)
    poly = kernel.name == "poly"
    return graph.add(
        "SVMRegressor",
        rows,
        domain="ai.onnx.ml",
        kernel_type=KERNELS[kernel.name],
        kernel_params=[gamma, coef0 if poly else 0.0, float(kernel.degree) if poly else 0.0],
        support_vectors=single(supports, "supports").ravel().tolist(),
        coefficients=single(coef, "coefficients").tolist(),
        n_supports=len(coef),
        rho=[0.0],
    )


def _log_odds(graph: _Graph, decisions: str, sigmoids: NDArray[np.float64]) -> str:
    """Add a z + b, where z is the score divided by its root mean square, clipped to [-10, 10]."""
    slope, offset, root = (graph.constant(row) for row in single(sigmoids.T, "sigmoids"))
    z = graph.add("Div", decisions, root)
    z = graph.add(
        "Clip", z, *(graph.constant(np.array(bound, np.float32)) for bound in (-LARGEST_Z, LARGEST_Z))
    )
    return graph.add("Add", graph.add("Mul", z, slope), offset)


def _add_label(graph: _Graph, predictor: Predictor) -> None:
    """Add the label: of two classes the second if the score is above 0, otherwise the largest score."""
    if predictor.scores.outputs > 1:
        code = graph.add("ArgMax", "scores", axis=1, keepdims=0)
    else:
        above = graph.add("Greater", "scores", graph.constant(np.array(0.0, np.float32)))
        code = graph.add("Squeeze", graph.add("Cast", above, to=7), graph.constant(np.array([1])))
    text = isinstance(predictor.labels[0], str)
    labels = graph.constant(np.array(predictor.labels, object if text else np.int64))
    graph.add("Gather", labels, code, output="label")


def _add_probabilities(graph: _Graph, predictor: Predictor) -> None:
    """Add the probability of each class."""
    if predictor.scores.outputs == 1:
        no = graph.add("Sigmoid", graph.add("Neg", "scores"))
        graph.add("Concat", no, graph.add("Sigmoid", "scores"), axis=1, output="probabilities")
        return
    logarithms = "scores"
    if predictor.probabilities == "ratio":
        # Sigmoids divided by their sum. Computed from logarithms, because in float32 all sigmoids may be 0.
        logarithms = graph.add("Neg", graph.add("Softplus", graph.add("Neg", "scores")))
    graph.add("Softmax", logarithms, axis=1, output="probabilities")
