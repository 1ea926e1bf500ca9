"""Pipelines of scikit-learn in model files: scalers and encoders, and a model of Budgetron at the end.

A file names the class of a step and stores its parameters and what it learned, as numbers and text. Scalers
get their learned arrays back after a check of type and shape. Encoders are fitted again, to their categories,
so that nothing here depends on how a version of scikit-learn stores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from budgetron._persistence.column_transformers import is_column_transformer
from budgetron._util.checks import require, require_int, require_names

__all__ = [
    "STEPS",
    "check_kind",
    "is_pipeline",
    "learned_of",
    "make_pipeline_of",
    "make_step",
    "parameters_of",
    "steps_of",
]

Learned: TypeAlias = dict[str, Any]

# Parameters of encoders whose values are types; a file stores their names.
DTYPES = {"float64": np.float64, "float32": np.float32, "int64": np.int64, "int32": np.int32}


@dataclass(frozen=True)
class Step:
    """What a file stores of a class.

    Attributes
    ----------
    cls : type
    arrays : tuple of str
        Learned arrays with one float per feature; they may be None.
    counts : tuple of str
        Learned numbers of rows, of all features or of each.
    encodes : bool
        Whether it learns categories instead.
    """

    cls: type[BaseEstimator]
    arrays: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    encodes: bool = False


STEPS = {
    "StandardScaler": Step(StandardScaler, ("mean_", "var_", "scale_"), ("n_samples_seen_",)),
    "MinMaxScaler": Step(
        MinMaxScaler,
        ("min_", "scale_", "data_min_", "data_max_", "data_range_"),
        ("n_samples_seen_",),
    ),
    "MaxAbsScaler": Step(MaxAbsScaler, ("scale_", "max_abs_"), ("n_samples_seen_",)),
    "RobustScaler": Step(RobustScaler, ("center_", "scale_")),
    "Normalizer": Step(Normalizer),
    "OneHotEncoder": Step(OneHotEncoder, encodes=True),
    "OrdinalEncoder": Step(OrdinalEncoder, encodes=True),
}


def is_pipeline(value: object) -> bool:
    """Return whether this is a pipeline, of which a file can contain some."""
    return type(value) is Pipeline


# ---------------------------------------------------------------------- writing


def steps_of(pipeline: Pipeline) -> list[tuple[str, object]]:
    """Return the steps of a pipeline by name; refuse what a file has no place for."""
    steps = getattr(pipeline, "steps", None)
    if not isinstance(steps, list | tuple) or not steps:
        raise TypeError("a pipeline should have steps: a list of pairs of a name and an estimator")
    if getattr(pipeline, "memory", None) is not None:
        raise TypeError("the memory of a pipeline cannot be stored in a file; set it to None")
    if getattr(pipeline, "transform_input", None) is not None:
        raise TypeError("transform_input of a pipeline cannot be stored in a file; set it to None")
    for pair in steps:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError("each step of a pipeline should be a pair of a name and an estimator")
    for name, step in steps[:-1]:
        if not (step is None or step == "passthrough" or is_column_transformer(step)):
            check_kind(step, f"step {name!r} of the pipeline")
    return list(steps)


def check_kind(step: object, what: str) -> None:
    """Raise `TypeError` if a file cannot contain a step of this class."""
    if type(step).__name__ not in STEPS:
        raise TypeError(
            f"{what} is a {type(step).__name__}; a file can contain {', '.join(STEPS)}, and a "
            "ColumnTransformer of these. Use pickle or joblib, and load only files that you trust"
        )


def parameters_of(step: BaseEstimator) -> dict[str, Any]:
    """Return the parameters of a step as plain values."""
    parameters: dict[str, Any] = step.get_params(deep=False)
    if "dtype" in parameters:
        parameters["dtype"] = np.dtype(parameters["dtype"]).name
    if STEPS[type(step).__name__].encodes:
        for name in ("min_frequency", "max_categories"):
            if parameters.get(name) is not None:
                raise TypeError(f"an encoder with {name} cannot be stored in a file; set it to None")
        parameters["categories"] = "auto"  # what it learned is stored instead
    return parameters


def learned_of(step: BaseEstimator) -> Learned | None:
    """Return what a step has learned; None if it is not fitted."""
    try:
        check_is_fitted(step)
    except Exception:  # NotFittedError, or another error in older versions
        return None
    if not hasattr(step, "n_features_in_"):
        return None
    kind = STEPS[type(step).__name__]
    learned: Learned = {"n_features_in_": int(step.n_features_in_)}
    if hasattr(step, "feature_names_in_"):
        learned["feature_names_in_"] = step.feature_names_in_
    if kind.encodes:
        learned["categories_"] = [np.asarray(values) for values in step.categories_]
        return learned
    learned |= {name: getattr(step, name, None) for name in kind.arrays}
    for name in kind.counts:
        count = getattr(step, name)
        learned[name] = count if isinstance(count, np.ndarray) else int(count)
    return learned


# ---------------------------------------------------------------------- reading


def make_pipeline_of(steps: object, verbose: object) -> Pipeline:
    """Return the pipeline of these named steps."""
    require(isinstance(steps, list) and len(steps) > 0, "a pipeline should have steps")
    assert isinstance(steps, list)
    for pair in steps:
        require(
            isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and "__" not in pair[0],
            "steps of a pipeline should be pairs of a name and an estimator",
        )
        allowed = pair[1] is None or pair[1] == "passthrough" or isinstance(pair[1], BaseEstimator)
        require(allowed, "steps of a pipeline should be estimators")
    names = [name for name, _ in steps]
    require(len(set(names)) == len(names), "steps of a pipeline should have different names")
    require(hasattr(steps[-1][1], "learned_state"), "the last step should be a model of Budgetron")
    require(isinstance(verbose, bool), "verbose should be true or false")
    _check_widths([step for _, step in steps if isinstance(step, BaseEstimator)])
    return Pipeline([tuple(pair) for pair in steps], verbose=verbose)


def _check_widths(steps: list[BaseEstimator]) -> None:
    """Refuse fitted steps of which one returns another number of features than the next one takes."""
    width = None
    for step in steps:
        takes = getattr(step, "n_features_in_", None)
        if takes is None:  # not fitted yet
            return
        what = f"{type(step).__name__} should take the {width} features of the step before"
        require(width is None or takes == width, what)
        if is_column_transformer(step):
            width = max(place.stop for place in step.output_indices_.values())
        else:
            width = len(step.get_feature_names_out()) if isinstance(step, OneHotEncoder) else takes


def make_step(name: object, parameters: object, learned: object) -> BaseEstimator:
    """Return a scaler or an encoder from its parameters and what it has learned, after checking both."""
    require(isinstance(name, str) and name in STEPS, f"{str(name)[:60]!r} is no step of this version")
    kind = STEPS[str(name)]
    known = set(kind.cls().get_params(deep=False))
    given = dict(require_names(parameters, known, f"parameters of {name}"))
    if "dtype" in given:
        require(isinstance(given["dtype"], str) and given["dtype"] in DTYPES, "unknown type of an encoder")
        given["dtype"] = DTYPES[given["dtype"]]
    step = kind.cls(**given)
    step._validate_params()
    if learned is None:
        return step
    extra = {"categories_"} if kind.encodes else {*kind.arrays, *kind.counts}
    found = require_names(
        learned, {"n_features_in_", *extra}, f"{name} should have learned", frozenset({"feature_names_in_"})
    )
    d = require_int(found["n_features_in_"], 1, 2**31 - 1, "number of features")
    if kind.encodes:
        _fit_encoder(step, found["categories_"], d)
    else:
        _set_scaler(step, kind, found, d)
    step.n_features_in_ = d
    if "feature_names_in_" in found:
        names = found["feature_names_in_"]
        require(isinstance(names, np.ndarray) and names.shape == (d,), f"there should be {d} feature names")
        require(all(isinstance(text, str) for text in names.tolist()), "feature names should be text")
        step.feature_names_in_ = names
    return step


def _set_scaler(step: BaseEstimator, kind: Step, found: Mapping[str, Any], d: int) -> None:
    for name in kind.arrays:
        values = found[name]
        if values is not None:
            ok = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.shape == (d,)
            require(ok and not np.isinf(values).any(), f"{name} should be {d} finite numbers")
        # A scaler that does not learn the mean, for example, may lack the attribute or have None there.
        setattr(step, name, values)
    if "scale_" in kind.arrays and found["scale_"] is not None:
        require(np.all(found["scale_"] > 0.0), "scales should be above 0")
    for name in kind.counts:
        count = found[name]
        if isinstance(count, np.ndarray):
            ok = count.dtype.kind == "i" and count.shape == (d,) and bool(np.all(count >= 0))
            require(ok, f"{name} should be {d} counts")
        else:
            count = np.int64(require_int(count, 0, 2**62, name))  # StandardScaler asks for its shape
        setattr(step, name, count)


def _fit_encoder(step: BaseEstimator, categories: object, d: int) -> None:
    require(
        isinstance(categories, list) and len(categories) == d, f"there should be categories of {d} features"
    )
    assert isinstance(categories, list)
    for values in categories:
        require(
            isinstance(values, np.ndarray) and values.ndim == 1 and len(values), "categories should be lists"
        )
    numeric = all(values.dtype.kind in "biuf" for values in categories)
    row = np.empty((1, d), np.result_type(*categories) if numeric else object)
    row[0] = [values[0] for values in categories]
    automatic, step.categories = step.categories, categories
    try:
        step.fit(row)
    finally:
        step.categories = automatic
