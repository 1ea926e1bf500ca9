"""The numbers that define the predictions of a model: its scores, the calibration, and the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.sparse import vstack as sparse_vstack
from sklearn.utils.validation import check_is_fitted

from budgetron._base.access import hypotheses_of, kernel_hypotheses_of, linear_part
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.learner_wrapper import LearnerWrapper
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.kernel import Kernel
from budgetron._util.types import Rows
from budgetron.batch import AveragedClassifier
from budgetron.calibration import CalibratedClassifier
from budgetron.conformal import ConformalClassifier
from budgetron.export._combined import combined_scores
from budgetron.export._learner_access import (
    SupportSet,
    averaged_supports,
    decides_by_supports,
    has_probabilities,
    kernel_of,
)
from budgetron.export._scores import Combined, Expansion, Labels, Predictor, Scores, Vector
from budgetron.portfolio import BudgetClassifier
from budgetron.portfolio._frozen import frozen

__all__ = ["predictor_of"]


def predictor_of(model: object, kernels: tuple[str, ...], what: str) -> Predictor:
    """Return the numbers that define a model.

    Parameters
    ----------
    model : estimator
    kernels : tuple of str
        The kernels that the file format supports.
    what : str
        The kind of file, for error messages.
    """
    if not isinstance(model, OnlineClassifier):
        raise TypeError(
            f"{what} can be made of a kernel or linear learner of Budgetron, a BudgetClassifier, an "
            "AveragedClassifier or a CalibratedClassifier; got "
            f"{type(model).__module__}.{type(model).__name__}. For a pipeline, "
            "export the last step and apply the other steps where the model runs"
        )
    if isinstance(model, ConformalClassifier):
        raise TypeError(
            f"{what} cannot be made of a ConformalClassifier, whose sets depend on a threshold that moves "
            "with the stream; export the learner inside, model.learner_"
        )
    check_is_fitted(model)
    labels = _labels(model.classes_)
    if isinstance(model, CalibratedClassifier):
        scores = _scores(model.learner_, kernels, what)
        return Predictor(labels, scores, _sigmoids(model.sigmoids_), True, "ratio")
    scores = _scores(model, kernels, what)
    if isinstance(model, BudgetClassifier):
        sigmoids = np.repeat(_sigmoids(model.sigmoids_), scores.outputs, axis=0)  # one for all classes
        return Predictor(labels, scores, sigmoids, False, "ratio")
    return Predictor(labels, scores, None, False, "softmax" if has_probabilities(model) else None)


def _scores(model: OnlineClassifier, kernels: tuple[str, ...], what: str) -> Scores | Combined:
    if isinstance(model, BudgetClassifier):
        return combined_scores(frozen(hypotheses_of(model)[0]))
    learner = model.learner_ if isinstance(model, LearnerWrapper) else model
    if isinstance(learner, LinearClassifier):
        weights = _weights(model)
        intercepts = model.intercept_ if learner.fit_intercept else None
        return Scores(len(weights), model.n_features_in_, None, weights, intercepts)
    if not isinstance(learner, KernelClassifier):
        raise TypeError(
            f"{what} cannot be made of {type(learner).__name__}, which has neither supports nor weights"
        )
    kernel = kernel_of(learner)
    _check_kernel(kernel, kernels, what)
    rows, coef = _supports(model, learner)
    expansion: Expansion | None = Expansion(kernel, rows, coef)
    slopes, intercepts = linear_part(kernel_hypotheses_of(learner)[0]) or (None, None)
    if kernel.name == "linear" or coef.shape[1] == 0:  # then the sum is linear, or 0
        weights = np.asarray((rows.T.astype(np.float64) @ coef.T).T)
        expansion, slopes = None, weights if slopes is None else slopes + weights
    return Scores(len(coef), model.n_features_in_, expansion, slopes, intercepts)


def _labels(classes: NDArray[Any]) -> Labels:
    labels = classes.tolist()
    if all(isinstance(label, str) for label in labels):
        texts: list[str] = labels
        return texts
    if all(isinstance(label, (bool, int, float)) and label == int(label) for label in labels):
        whole = [int(label) for label in labels]
        if all(-(2**63) <= label < 2**63 for label in whole):
            return whole
    raise TypeError(f"labels must be text, or whole numbers that fit into 64 bits; got {labels}")


def _sigmoids(numbers: Vector) -> Vector:
    slope, offset, square = numbers[:, :3].T
    # If all margins were 0, only the offset counts.
    return np.column_stack(
        [np.where(square > 0.0, slope, 0.0), offset, np.sqrt(np.where(square > 0.0, square, 1.0))]
    )


def _weights(model: OnlineClassifier) -> Vector:
    try:
        coef: Vector = model.coef_
    except AttributeError as error:
        raise TypeError(f"{type(model).__name__} cannot be exported: {error}") from None
    return coef


def _check_kernel(kernel: Kernel, kernels: tuple[str, ...], what: str) -> None:
    able = f"{what} supports the kernels {', '.join(kernels)}"
    if kernel.function is not None:
        raise TypeError(f"{able}; the kernel is a Python function, which a file cannot contain")
    if kernel.normalized:
        raise TypeError(f"{able}; the kernel is Normalized({kernel.name!r})")
    if kernel.name not in kernels:
        raise TypeError(f"{able}; the kernel is {kernel.name!r}")


def _supports(model: OnlineClassifier, learner: KernelClassifier) -> tuple[Rows, Vector]:
    """Return the supports of all outputs, each once, and coefficients of shape (n_outputs, n_supports)."""
    if isinstance(model, AveragedClassifier):
        return _union(averaged_supports(learner))
    if model is not learner:
        raise TypeError(
            f"{type(model).__name__} of a kernel learner cannot be exported: it does not store the supports "
            "of its hypothesis. Export an AveragedClassifier, or the learner itself"
        )
    if not decides_by_supports(learner):
        raise TypeError(
            f"{type(learner).__name__} cannot be exported: its prediction is not a sum over its supports. To "
            "export the average of the kernel Perceptron's hypotheses, use "
            "AveragedClassifier(KernelPerceptron())"
        )
    return learner.support_vectors_, learner.dual_coef_


def _union(outputs: list[list[SupportSet]]) -> tuple[Rows, Vector]:
    """Return one row per round in which some output added a support, and the coefficients."""
    sets = [support_set for output in outputs for support_set in output]
    rounds, first = np.unique(np.concatenate([one.rounds for one in sets]), return_index=True)
    coef = np.zeros((len(outputs), len(rounds)))
    for c, output in enumerate(outputs):
        for one in output:
            coef[c, np.searchsorted(rounds, one.rounds)] = one.coef
    rows = [one.rows for one in sets]
    return (sparse_vstack(rows, format="csr") if issparse(rows[0]) else np.vstack(rows))[first], coef
