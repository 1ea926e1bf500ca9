"""What a model computes, as plain numbers: f(x) of each output, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.sparse import vstack as sparse_vstack
from sklearn.utils.validation import check_is_fitted

from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.supports import Supports
from budgetron.batch import AveragedClassifier
from budgetron.calibration import CalibratedClassifier

__all__ = ["FARTHEST", "Scores", "gamma_and_coef0", "scores_of", "single"]

# Where a sigmoid holds its z, as in `_core.calibration`.
FARTHEST = 10.0

Labels = list[int] | list[str]


@dataclass(frozen=True)
class Scores:
    """f(x) = sum_i coef[c, i] k(rows[i], x) of each output c; without a kernel, coef[c] x."""

    labels: Labels
    features: int
    coef: NDArray[np.float64]  # (n_outputs, n_supports), or (n_outputs, n_features) without a kernel
    kernel: Kernel | None
    rows: Any  # (n_supports, n_features), an array or CSR; None without a kernel
    # For each output what makes log-odds of f(x): a, b, and what f(x) is divided by
    sigmoids: NDArray[np.float64] | None

    @property
    def outputs(self) -> int:
        """One for two classes, and one a class for more."""
        return len(self.coef)


def scores_of(model: Any, kernels: tuple[str, ...], what: str) -> Scores:
    """What a model computes, if its kernel is one of these; `what` names the file for errors."""
    if not isinstance(model, OnlineClassifier):
        raise TypeError(
            f"{what} is made of a kernel or linear learner of Budgetron, an AveragedClassifier or a "
            f"CalibratedClassifier; got {type(model).__module__}.{type(model).__name__}. Of a pipeline "
            "export the last step, and do what comes before it where the model runs"
        )
    check_is_fitted(model)
    labels = _labels(model.classes_)
    sigmoids, decides = None, model
    if isinstance(model, CalibratedClassifier):
        sigmoids, decides = _sigmoids(model.sigmoids_), model.learner_
    learner = decides.learner_ if isinstance(decides, LearnerWrapper) else decides
    if isinstance(learner, LinearClassifier):
        coef, kernel, rows = _weights(decides), None, None
    elif isinstance(learner, KernelClassifier):
        kernel = learner._learners[0].kernel
        _check_kernel(kernel, kernels, what)
        rows, coef = _expansion(decides, learner)
        if kernel.name == "linear" or coef.shape[1] == 0:  # then the sum is a weight vector, or 0
            coef = np.asarray((rows.T.astype(np.float64) @ coef.T).T)
            kernel = rows = None
    else:
        raise TypeError(
            f"{what} cannot be made of {type(learner).__name__}: it keeps no expansion and no weights"
        )
    return Scores(labels, model.n_features_in_, coef, kernel, rows, sigmoids)


def single(values: Any, what: str) -> NDArray[np.float32]:
    """The values in float32, if they are not too large for it."""
    dense = values.toarray() if issparse(values) else np.asarray(values)
    with np.errstate(over="ignore"):
        small = dense.astype(np.float32)
    if not np.isfinite(small).all():
        raise ValueError(f"{what} of up to {np.abs(dense).max():.3g} exceed float32; scale the features")
    return small


def gamma_and_coef0(kernel: Kernel) -> list[float]:
    """The kernel's parameters in float32."""
    numbers = single([kernel.gamma, kernel.coef0], "kernel parameters")
    if numbers[0] < np.finfo(np.float32).tiny:
        raise ValueError(f"gamma is {kernel.gamma:.3g}, too small for float32; scale the features")
    values: list[float] = numbers.tolist()
    return values


def _labels(classes: NDArray[Any]) -> Labels:
    labels = classes.tolist()
    if all(isinstance(label, str) for label in labels):
        texts: list[str] = labels
        return texts
    if all(isinstance(label, (bool, int, float)) and label == int(label) for label in labels):
        whole = [int(label) for label in labels]
        if all(-(2**63) <= label < 2**63 for label in whole):
            return whole
    raise TypeError(f"labels must be text or whole numbers of 64 bits; got {labels}")


def _sigmoids(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    slope, offset, square = numbers[:, :3].T
    # Margins that were all 0 say nothing: only the offset speaks.
    return np.column_stack(
        [np.where(square > 0.0, slope, 0.0), offset, np.sqrt(np.where(square > 0.0, square, 1.0))]
    )


def _weights(model: Any) -> NDArray[np.float64]:
    try:
        coef: NDArray[np.float64] = model.coef_
    except AttributeError as error:
        raise TypeError(f"{type(model).__name__} cannot be exported: {error}") from None
    return coef


def _check_kernel(kernel: Kernel, kernels: tuple[str, ...], what: str) -> None:
    able = f"{what} can have the kernels {', '.join(kernels)}"
    if kernel.function is not None:
        raise TypeError(f"{able}; the kernel is a Python function, which no file can hold")
    if kernel.normalized:
        raise TypeError(f"{able}; the kernel is Normalized({kernel.name!r})")
    if kernel.name not in kernels:
        raise TypeError(f"{able}; the kernel is {kernel.name!r}")


def _expansion(model: Any, learner: KernelClassifier) -> tuple[Any, NDArray[np.float64]]:
    """The supports of all outputs, each once, and their coefficients, a row an output."""
    if isinstance(model, AveragedClassifier):
        return _union([_average(hypothesis) for hypothesis in learner._learners])
    if model is not learner:
        raise TypeError(
            f"{type(model).__name__} of a kernel learner cannot be exported: its hypothesis is kept as the "
            "changes that led to it. Export an AveragedClassifier, or the learner itself"
        )
    if type(learner)._decide is not KernelClassifier._decide:
        raise TypeError(
            f"{type(learner).__name__} cannot be exported: it does not decide by its supports and "
            "coefficients alone. The average of the kernel Perceptron's hypotheses is "
            "AveragedClassifier(KernelPerceptron())"
        )
    gaussian = learner._learners[0].rule.gaussian
    if gaussian is not None and gaussian.linear:
        raise TypeError(
            f"{type(learner).__name__} with a linear part beside its supports cannot be exported; learn one "
            "with linear=False"
        )
    return learner.support_vectors_, learner.dual_coef_


Part = tuple[NDArray[np.int64], Any, NDArray[np.float64]]


def _average(hypothesis: Learner) -> list[Part]:
    """Rounds, rows and coefficients of the supports there are, and of those that left."""
    rule = hypothesis.rule
    assert rule.average is not None
    assert rule.departed is not None
    sums = [(hypothesis.supports, rule.average.total(rule.coef)), (rule.departed, rule.departed_sums)]
    return [_part(slab, total / rule.rounds) for slab, total in sums]


def _part(slab: Supports, coef: NDArray[np.float64]) -> Part:
    slots = slab.order[: slab.m]
    return slab.rounds[slots], slab.rows(slots), coef[slots]


def _union(outputs: list[list[Part]]) -> tuple[Any, NDArray[np.float64]]:
    """One row for each round that some output has a support of."""
    rows = [part[1] for parts in outputs for part in parts]
    rounds, first = np.unique(
        np.concatenate([part[0] for parts in outputs for part in parts]), return_index=True
    )
    coef = np.zeros((len(outputs), len(rounds)))
    for c, parts in enumerate(outputs):
        for added, _, values in parts:
            coef[c, np.searchsorted(rounds, added)] = values
    return (sparse_vstack(rows, format="csr") if issparse(rows[0]) else np.vstack(rows))[first], coef
