"""Pipelines of scikit-learn: the steps before the model, in front of an exported model.

Scalers become a shift, a factor and perhaps limits of each feature. A OneHotEncoder of numbers becomes
comparisons. A ColumnTransformer of these becomes one such piece after the other, each for its columns. These
steps are put in front of the export of the last step, which then takes the rows of the pipeline.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from budgetron._util.atomic import atomic_write
from budgetron._util.columns import column_numbers

__all__ = ["c_of_pipelines", "onnx_of_pipelines"]

Floats = NDArray[np.float64]
Export = TypeVar("Export", bound=Callable[..., Any])


def c_of_pipelines(export: Export) -> Export:
    """Let an export to C accept pipelines."""

    @functools.wraps(export)
    def wrapper(model: object, path: Any = None, name: str = "model") -> str | None:
        if not isinstance(model, Pipeline):
            return cast(str | None, export(model, path, name))
        stages, width, last = stages_of(model)
        if not stages or not isinstance(name, str) or not (name.isascii() and name.isidentifier()):
            return cast(str | None, export(last, path, name))  # refuses a name that is not an identifier
        header = export(last, None, f"{name}_model")
        text: str | None = _written(c_with_stages(header, f"{name}_model", name, stages, width), path)
        return text

    return cast(Export, wrapper)


def onnx_of_pipelines(export: Export) -> Export:
    """Let an export to ONNX accept pipelines."""

    @functools.wraps(export)
    def wrapper(model: object, path: Any = None) -> bytes | None:
        if not isinstance(model, Pipeline):
            return cast(bytes | None, export(model, path))
        stages, width, last = stages_of(model)
        inner = export(last)
        content: bytes | None = _written(onnx_with_stages(inner, stages, width) if stages else inner, path)
        return content

    return cast(Export, wrapper)


def _written(content: Any, path: Any) -> Any:
    """Return the content, or write it to a file."""
    if path is None:
        return content
    with atomic_write(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return None


@dataclass(frozen=True)
class Affine:
    """(x - shift) * factor of these columns, within limits if there are any."""

    shift: Floats
    factor: Floats
    columns: NDArray[np.int64]
    limits: tuple[float, float] | None = None

    @property
    def width(self) -> int:
        """The number of features that it returns."""
        return len(self.shift)


@dataclass(frozen=True)
class OneHot:
    """For each output, whether the feature in this column is this value."""

    columns: NDArray[np.int64]
    values: Floats

    @property
    def width(self) -> int:
        """The number of features that it returns."""
        return len(self.columns)


Piece: TypeAlias = Affine | OneHot
# The outputs of the pieces, one after the other.
Stage: TypeAlias = list[Piece]


def width_of(stage: Stage) -> int:
    """Return the number of features that a stage returns."""
    return sum(piece.width for piece in stage)


def stages_of(pipeline: Pipeline) -> tuple[list[Stage], int, object]:
    """Return the stages before the last step, the number of features of a row, and the last step."""
    stages: list[Stage] = []
    width = None
    for name, step in pipeline.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        check_is_fitted(step)
        width = int(step.n_features_in_) if width is None else width
        stages.append(_stage(name, step, np.arange(int(step.n_features_in_))))
    last = pipeline.steps[-1][1]
    return stages, int(getattr(last, "n_features_in_", 0)) if width is None else width, last


def _stage(name: str, step: Any, given: NDArray[np.int64]) -> Stage:
    """Return the stage of a step that takes the given columns."""
    d = len(given)
    zeros, ones = np.zeros(d), np.ones(d)
    if type(step) is ColumnTransformer:
        return _columns(name, step)
    if step == "passthrough" or (type(step) is FunctionTransformer and step.func is None):
        return [Affine(zeros, ones, given)]
    if type(step) is StandardScaler:
        shift = step.mean_ if step.with_mean else zeros
        return [Affine(shift, 1.0 / step.scale_ if step.with_std else ones, given)]
    if type(step) is RobustScaler:
        shift = step.center_ if step.with_centering else zeros
        return [Affine(shift, 1.0 / step.scale_ if step.with_scaling else ones, given)]
    if type(step) is MaxAbsScaler:
        limits = (-1.0, 1.0) if getattr(step, "clip", False) else None
        return [Affine(zeros, 1.0 / step.scale_, given, limits)]
    if type(step) is MinMaxScaler:
        # x scale + min = (x + min / scale) scale
        limits = (float(step.feature_range[0]), float(step.feature_range[1])) if step.clip else None
        return [Affine(-step.min_ / step.scale_, step.scale_, given, limits)]
    if type(step) is OneHotEncoder:
        return [_one_hot(name, step, given)]
    raise TypeError(
        f"step {name!r} of the pipeline is a {type(step).__name__}, which cannot be exported. Scalers "
        "(StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler), a OneHotEncoder of numbers, and a "
        "ColumnTransformer of these can. Export the last step, and do the others where the model runs"
    )


def _columns(name: str, step: Any) -> Stage:
    """Return the pieces of a ColumnTransformer."""
    if step.transformer_weights is not None:
        raise TypeError(
            f"transformer_weights of step {name!r} cannot be exported; scale the features instead"
        )
    names = step.feature_names_in_.tolist() if hasattr(step, "feature_names_in_") else None
    pieces: Stage = []
    for part, transformer, columns in step.transformers_:
        numbers = column_numbers(columns, names, int(step.n_features_in_))
        if type(transformer) is ColumnTransformer:
            raise TypeError(f"{part!r} of step {name!r} is a ColumnTransformer, which cannot be nested")
        if numbers and not (isinstance(transformer, str) and transformer == "drop"):
            pieces += _stage(f"{name}: {part}", transformer, np.array(numbers))
    return pieces


def _one_hot(name: str, step: Any, given: NDArray[np.int64]) -> OneHot:
    columns, values = [], []
    for place, (j, categories) in enumerate(zip(given.tolist(), step.categories_, strict=True)):
        if categories.dtype.kind not in "biuf":
            raise TypeError(
                f"step {name!r} of the pipeline encodes text, and an exported model takes numbers; encode "
                "categories as numbers first (OrdinalEncoder), outside of the pipeline"
            )
        dropped = None if step.drop_idx_ is None else step.drop_idx_[place]
        kept = [float(value) for i, value in enumerate(categories) if i != dropped]
        if len(set(np.asarray(categories, np.float32).tolist())) < len(categories):
            raise ValueError(
                f"two categories of feature {j} are equal in float32; use other numbers for them"
            )
        columns += [j] * len(kept)
        values += kept
    return OneHot(np.array(columns), np.array(values))


# ---------------------------------------------------------------------- C


def c_with_stages(header: str, inner: str, name: str, stages: list[Stage], width: int) -> str:
    """Return the header of the last step, named `inner`, with functions that take rows of the pipeline."""
    upper, big = name.upper(), inner.upper()
    tables, lines, source = [], [], "x"
    for k, stage in enumerate(stages):
        last = k == len(stages) - 1
        target = "z" if last else f"stage_{k}"
        if not last:
            lines.append(f"    float {target}[{width_of(stage)}];")
        start = 0
        for p, piece in enumerate(stage):
            at = f"{k}" if len(stage) == 1 else f"{k}_{p}"
            taken, to = (
                f"{source}[{name}_column_{at}[i]]",
                f"{target}[i]" if not start else f"{target}[{start} + i]",
            )
            tables.append(_table(f"{name}_column_{at}", "int", piece.columns))
            if isinstance(piece, Affine):
                tables.append(_table(f"{name}_shift_{at}", "float", piece.shift))
                tables.append(_table(f"{name}_factor_{at}", "float", piece.factor))
                value = f"({taken} - {name}_shift_{at}[i]) * {name}_factor_{at}[i]"
                step = [f"        const float value = {value};", f"        {to} = value;"]
                if piece.limits is not None:
                    low, high = (_number(limit) for limit in piece.limits)
                    step[1] = f"        {to} = value < {low} ? {low} : value > {high} ? {high} : value;"
            else:
                tables.append(_table(f"{name}_value_{at}", "float", piece.values))
                step = [f"        {to} = {taken} == {name}_value_{at}[i] ? 1.0f : 0.0f;"]
            lines += [f"    for (int i = 0; i < {piece.width}; i++) {{", *step, "    }"]
            start += piece.width
        source = target
    transform = "\n".join(lines)
    parts = [
        f"\n/* The steps of the pipeline before the model. */\n#define {upper}_FEATURES {width}\n"
        f"#define {upper}_CLASSES {big}_CLASSES\n#define {upper}_OUTPUTS {big}_OUTPUTS\n\n"
        + "\n".join(tables),
        f"\nstatic inline void {name}_transform(const float x[{upper}_FEATURES], float z[{big}_FEATURES])\n"
        f"{{\n{transform}\n}}\n",
    ]
    call = f"    float z[{big}_FEATURES];\n    {name}_transform(x, z);\n"
    for kind, function, given in re.findall(
        rf"static inline ([\w ]+?\*?) ?{inner}_(\w+)\(const float x\[{big}_FEATURES\](.*?)\)\n", header
    ):
        if function in ("decision", "decisions", "predict", "probabilities"):
            other = re.findall(r"float (\w+)\[", given)
            returns = "" if kind == "void" else "return "
            arguments = ", ".join(["z", *other])
            parts.append(
                f"\nstatic inline {kind} {name}_{function}(const float x[{upper}_FEATURES]{given})\n"
                f"{{\n{call}    {returns}{inner}_{function}({arguments});\n}}\n"
            )
    label = re.search(rf"static inline ([\w ]+?\*?) ?{inner}_label\(int c\)", header)
    assert label is not None
    parts.append(f"\nstatic inline {label[1]} {name}_label(int c)\n{{\n    return {inner}_label(c);\n}}\n")
    body = header[: header.rindex("#endif")].rstrip("\n")
    return f"{body}\n{''.join(parts)}\n#endif\n"


def _number(value: float) -> str:
    return f"{np.float32(value):.8e}f"


def _table(name: str, kind: str, values: NDArray[Any]) -> str:
    if kind == "int":
        cells = [str(int(value)) for value in values]
    else:
        single = values.astype(np.float32)
        if not np.isfinite(single).all():
            raise ValueError("a scale of the pipeline is too large or too small for float32")
        cells = [_number(value) for value in single]
    lines = [", ".join(cells[i : i + 6]) for i in range(0, len(cells), 6)]
    return f"static const {kind} {name}[{len(cells)}] = {{\n    " + ",\n    ".join(lines) + ",\n};\n"


# ---------------------------------------------------------------------- ONNX


def onnx_with_stages(content: bytes, stages: list[Stage], width: int) -> bytes:
    """Return the ONNX file of the last step with the stages in front of it. Scaling is done in float64."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load_model_from_string(content)
    graph = model.graph
    nodes, constants, source = [], [], "X"

    def constant(name: str, values: NDArray[Any]) -> str:
        constants.append(numpy_helper.from_array(values, name))
        return name

    def add(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def add_piece(at: str, piece: Piece) -> str:
        taken = add("Gather", [source, constant(f"{at}_columns", piece.columns)], f"{at}_taken", axis=1)
        if isinstance(piece, OneHot):
            values = constant(f"{at}_values", piece.values.astype(np.float32)[None, :])
            equal = add("Equal", [taken, values], f"{at}_equal")
            return add("Cast", [equal], f"{at}_out", to=TensorProto.FLOAT)
        wide = add("Cast", [taken], f"{at}_wide", to=TensorProto.DOUBLE)
        moved = add("Sub", [wide, constant(f"{at}_shift", piece.shift.astype(np.float64))], f"{at}_moved")
        factor = constant(f"{at}_factor", piece.factor.astype(np.float64))
        scaled = add("Mul", [moved, factor], f"{at}_scaled")
        single = add("Cast", [scaled], f"{at}_out", to=TensorProto.FLOAT)
        if piece.limits is None:
            return single
        low, high = (np.array(limit, np.float32) for limit in piece.limits)
        limits = [constant(f"{at}_low", low), constant(f"{at}_high", high)]
        return add("Clip", [single, *limits], f"{at}_clipped")

    for k, stage in enumerate(stages):
        outputs = [add_piece(f"stage_{k}_{p}", piece) for p, piece in enumerate(stage)]
        source = outputs[0] if len(outputs) == 1 else add("Concat", outputs, f"stage_{k}", axis=1)
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name == "X":
                node.input[i] = source
    old = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *old])
    graph.initializer.extend(constants)
    graph.input[0].CopyFrom(helper.make_tensor_value_info("X", TensorProto.FLOAT, ["n", width]))
    graph.name = "Pipeline"
    onnx.checker.check_model(model, full_check=True)
    result: bytes = model.SerializeToString(deterministic=True)
    return result
