"""Models as ONNX files, of standard operators."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from budgetron._util.atomic import atomic_write
from budgetron.export._scores import FARTHEST, Scores, gamma_and_coef0, scores_of, single

__all__ = ["onnx"]

Path = str | os.PathLike[str]

# Old enough for runtimes of 2021 on; the operators have not changed in what is used here.
OPSET, ML_OPSET, IR_VERSION = 13, 1, 8
KERNELS = {"rbf": "RBF", "linear": "LINEAR", "poly": "POLY"}

# protobuf, of which ONNX files are made, holds no more; some of it is for other things than numbers.
MOST_NUMBERS = (2**31 - 2**20) // 4

# Beyond this a float32 is not each whole number.
HIGHEST_DEGREE = 2**24


@overload
def onnx(model: Any, path: None = None) -> bytes: ...
@overload
def onnx(model: Any, path: Path) -> None: ...
def onnx(model: Any, path: Path | None = None) -> bytes | None:
    """Make an ONNX file of a model.

    Use it where there is an ONNX runtime: services, phones, browsers, other languages. Needs
    ``pip install 'budgetron[onnx]'``; what reads the file does not.

    Parameters
    ----------
    model : estimator
        A fitted linear learner, a kernel learner with the kernel "rbf", "linear" or "poly", or an
        `AveragedClassifier` or `CalibratedClassifier` of such.
    path : str or path-like, optional
        Where to write the file, whole or not at all.

    Returns
    -------
    bytes or None
        What the file holds, if there is no `path`. The same model gives the same bytes.

    Raises
    ------
    TypeError
        If a model of this kind cannot be exported, with the reason.
    ValueError
        If the model has not learned anything yet, or has numbers that float32 cannot hold.

    Notes
    -----
    The input is ``X``, float32 of shape (n, n_features). The outputs are

    - ``label``, of shape (n,): int64, or strings if the labels are text;
    - ``scores``, what `decision_function` gives, of shape (n, 1) with two classes, else (n, n_classes);
    - ``probabilities``, of shape (n, n_classes), of a `CalibratedClassifier`.

    Scores agree with the model's to float32 accuracy, and so do labels where no score is that close to a tie.

    Kernel learners become one ``SVMRegressor`` for each output, and linear learners and the kernel "linear"
    one matrix product. The supports of each class stand there in full, also if several classes hold one, and
    if the model keeps non-zeros only.

    Examples
    --------
    >>> import budgetron
    >>> model = budgetron.Forgetron(budget=2).fit([[0.0], [1.0], [2.0]], ["no", "yes", "no"])
    >>> content = budgetron.export.onnx(model)
    >>> type(content)
    <class 'bytes'>
    """
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise ImportError("export.onnx needs onnx: pip install 'budgetron[onnx]'") from None
    scores = scores_of(model, tuple(KERNELS), "an ONNX file")
    graph = _Graph()
    decisions = _decisions(graph, scores)
    if scores.sigmoids is not None:
        decisions = _log_odds(graph, decisions, scores.sigmoids)
    graph.add("Identity", decisions, output="scores")
    _add_label(graph, scores)
    text = isinstance(scores.labels[0], str)
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.STRING if text else TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", scores.outputs]),
    ]
    if scores.sigmoids is not None:
        _add_probabilities(graph, scores)
        shape = ["n", len(scores.labels)]
        outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, shape))
    X = helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", scores.features])
    proto = helper.make_model(
        helper.make_graph(graph.nodes, type(model).__name__, [X], outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        ir_version=IR_VERSION,
        producer_name="budgetron",
        producer_version=version("budgetron"),
    )
    content: bytes = proto.SerializeToString(deterministic=True)
    if path is None:
        return content
    with atomic_write(path) as file:
        file.write(content)
    return None


class _Graph:
    """Nodes and constants as they come, and names for what flows between them."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        name = output or f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name


def _decisions(graph: _Graph, scores: Scores) -> str:
    """f(x) of each output, side by side."""
    if scores.kernel is None:
        return graph.add("MatMul", "X", graph.constant(single(scores.coef.T, "weights")))
    # An output is charged for the supports that it holds.
    held = [np.flatnonzero(coef) for coef in scores.coef]
    held = [
        slots if len(slots) else np.array([0]) for slots in held
    ]  # none would mean weights to the runtime
    if sum(map(len, held)) * (scores.features + 1) > MOST_NUMBERS:
        raise ValueError(
            f"an ONNX file holds 2 GB, and this model has {sum(map(len, held))} supports of "
            f"{scores.features} features; learn it with a smaller budget"
        )
    columns = [_expansion(graph, scores, coef, slots) for coef, slots in zip(scores.coef, held, strict=True)]
    return columns[0] if len(columns) == 1 else graph.add("Concat", *columns, axis=1)


def _expansion(graph: _Graph, scores: Scores, coef: NDArray[np.float64], slots: NDArray[np.intp]) -> str:
    kernel = scores.kernel
    assert kernel is not None
    if kernel.degree > HIGHEST_DEGREE:
        raise ValueError(f"an ONNX file can have a degree of up to {HIGHEST_DEGREE}; got {kernel.degree}")
    gamma, coef0 = gamma_and_coef0(kernel)
    poly = kernel.name == "poly"
    return graph.add(
        "SVMRegressor",
        "X",
        domain="ai.onnx.ml",
        kernel_type=KERNELS[kernel.name],
        kernel_params=[gamma, coef0 if poly else 0.0, float(kernel.degree) if poly else 0.0],
        support_vectors=single(scores.rows[slots], "supports").ravel().tolist(),
        coefficients=single(coef[slots], "coefficients").tolist(),
        n_supports=len(slots),
        rho=[0.0],
    )


def _log_odds(graph: _Graph, decisions: str, sigmoids: NDArray[np.float64]) -> str:
    """A z + b, with z the score by the root of its mean square, held within bounds."""
    slope, offset, root = (graph.constant(row) for row in single(sigmoids.T, "sigmoids"))
    z = graph.add("Div", decisions, root)
    z = graph.add(
        "Clip", z, *(graph.constant(np.array(bound, np.float32)) for bound in (-FARTHEST, FARTHEST))
    )
    return graph.add("Add", graph.add("Mul", z, slope), offset)


def _add_label(graph: _Graph, scores: Scores) -> None:
    """The class of the largest score, the first if several; of two, the second if its score is above 0."""
    if scores.outputs > 1:
        code = graph.add("ArgMax", "scores", axis=1, keepdims=0)
    else:
        above = graph.add("Greater", "scores", graph.constant(np.array(0.0, np.float32)))
        code = graph.add("Squeeze", graph.add("Cast", above, to=7), graph.constant(np.array([1])))
    text = isinstance(scores.labels[0], str)
    labels = graph.constant(np.array(scores.labels, object if text else np.int64))
    graph.add("Gather", labels, code, output="label")


def _add_probabilities(graph: _Graph, scores: Scores) -> None:
    if scores.outputs == 1:
        no = graph.add("Sigmoid", graph.add("Neg", "scores"))
        graph.add("Concat", no, graph.add("Sigmoid", "scores"), axis=1, output="probabilities")
        return
    # The sigmoids by their sum, through logarithms: in float32 all of them may be 0.
    logarithms = graph.add("Neg", graph.add("Softplus", graph.add("Neg", "scores")))
    graph.add("Softmax", logarithms, axis=1, output="probabilities")
