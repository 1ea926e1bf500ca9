"""`certify`: evaluate a learner's theorem on the stream that it learned."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, column_or_1d

from budgetron._base.access import (
    check_parameters,
    competitor_kernel,
    competitor_rows,
    has_intercept,
    theorems_of,
)
from budgetron._base.batches import encode
from budgetron._base.detection_trace import DetectionTrace
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_detector import OnlineDetector
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.regression_trace import RegressionTrace
from budgetron._base.theorems import (
    ClassesTheorem,
    DeclaredTheorem,
    FunctionTheorem,
    ImageTheorem,
    Run,
    SequenceTheorem,
    VoteTheorem,
    WeightsTheorem,
)
from budgetron._base.trace import Trace
from budgetron._certify.best import find_best_competitor
from budgetron._certify.certificate import Certificate, refuse_failed
from budgetron._certify.classes import classes_certificate
from budgetron._certify.competitors import Expansion, expansion_of, set_competitors
from budgetron._certify.coverage import coverage_certificate
from budgetron._certify.detection import certify_alarms
from budgetron._certify.regression import certify_regression
from budgetron._certify.second_order import evaluate_images
from budgetron._certify.votes import sequence_certificate, vote_certificate
from budgetron._util.types import Rows
from budgetron.bounds import THEOREMS, Assumption
from budgetron.conformal import ConformalClassifier, ConformalRegressor

__all__ = ["certify"]


def certify(
    model: OnlineClassifier | OnlineRegressor | OnlineDetector,
    X: Rows,
    y: ArrayLike | None,
    trace: Trace | RegressionTrace | DetectionTrace,
    competitor: object = "best",
    *,
    theorem: str | None = None,
    check: bool = True,
    verbose: bool = False,
) -> Certificate:
    """Evaluate the model's own theorem on the stream that it learned.

    Parameters
    ----------
    model : online learner
        Fitted, on two classes, or a regressor or a detector. The theorems about votes of experts, of
        `SharedBudgetPerceptron` and of `ConformalClassifier` allow more classes.
    X, y : array-like or CSR matrix of shape (n_rounds, n_features), and labels
        The whole stream, in the order in which it was learned. Sparse rows are converted to dense ones.
        Detectors ignore y.
    trace : Trace
        What `progressive_fit` returned for it. Theorems about the ledger, and comparisons with sequences of
        experts that switch, need ``ledger=True`` there.
    competitor : "best", (rows, coefficients), array, fitted model, list of (first round, competitor), or int
        What the run is compared with. A list is a sequence of competitors, each from its first round on, for
        the theorems that allow drift. A weight vector is meant for linear learners. Models must have the
        learner's kernel. If the learner is linear and has an intercept, its theorem is about rows (1, x), and
        so is the competitor: intercepts of models are used, weight vectors may have the intercept as an
        additional first number, and rows of expansions an additional first column. Otherwise intercepts of
        models are ignored. Linear regressors take a weight vector, with the intercept first if there is one.
        An integer is the number of switches of a sequence of experts, for the theorems that compare with such
        sequences. "best" searches for the competitor with the smallest bound, and finds it or one nearly as
        good. The search computes a quadratic number of kernel values: some seconds for 5,000 rounds.
    theorem : str, optional
        A name in `bounds.THEOREMS`, for learners with several theorems.
    check : bool, default=True
        Whether to raise `AssumptionError` if an assumption of the theorem does not hold. Otherwise the
        certificate reports it.
    verbose : bool, default=False
        Whether to report the progress of the search on standard error.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> from budgetron import Forgetron, certify, streams
    >>> X, y = streams.two_gaussians(2000, random_state=0)
    >>> model = Forgetron(budget=500, gamma=0.5)
    >>> trace = model.progressive_fit(X, y)
    >>> certificate = certify(model, X, y, trace)
    >>> certificate.holds, certificate.count < certificate.bound
    (True, True)
    """
    if isinstance(model, OnlineDetector):
        if not isinstance(trace, DetectionTrace):
            raise TypeError(f"trace must be what progressive_fit of the model returned; got {trace!r}")
        return certify_alarms(model, X, trace, competitor, theorem, check)
    if y is None:
        raise ValueError("y must be the labels or targets of the stream; only detectors have none")
    if isinstance(trace, DetectionTrace):
        raise TypeError(f"trace must be what progressive_fit of the model returned; got {trace!r}")
    if isinstance(model, ConformalClassifier | ConformalRegressor):
        return coverage_certificate(model, X, y, trace, competitor, theorem, check)
    if isinstance(model, OnlineRegressor):
        if not isinstance(trace, RegressionTrace):
            raise TypeError(f"trace must be what progressive_fit of the model returned; got {trace!r}")
        return certify_regression(model, X, y, trace, competitor, theorem, check)
    if not isinstance(trace, Trace):
        raise TypeError(f"trace must be what progressive_fit of the model returned; got {trace!r}")
    run = _run_of(model, X, y, trace)
    chosen = _choose(model, run.radius, theorem)
    if isinstance(chosen, SequenceTheorem):
        return sequence_certificate(model, run, chosen, competitor, check)
    if isinstance(chosen, ClassesTheorem):
        return classes_certificate(model, run, chosen, competitor, check, verbose)
    _refuse_classes(model, [chosen])
    if isinstance(chosen, VoteTheorem):
        return vote_certificate(model, run, chosen, competitor, check)
    return _run_certificate(model, run, chosen, competitor, check, verbose)


def _run_of(model: OnlineClassifier, X: Rows, y: ArrayLike, trace: Trace) -> Run:
    """Return the stream as a run without a competitor, after checking that the model learned it."""
    if not isinstance(model, OnlineClassifier):
        raise TypeError(f"model must be one of Budgetron's learners; got {model!r}")
    check_is_fitted(model)
    check_parameters(model)
    theorems = theorems_of(model, 1.0)  # of which kinds they are does not depend on the radius
    if not theorems:
        raise ValueError(f"the papers state no theorem for {model!r}")
    _refuse_classes(model, theorems)
    rows = competitor_rows(model, X)
    codes = encode(column_or_1d(y), model.classes_)
    if not len(rows) == len(codes) == len(trace) == model.rounds_:
        raise ValueError(
            "X, y and trace must be the whole stream that the model learned: "
            f"{len(rows)} rows, {len(codes)} labels, {len(trace)} rounds in the trace, "
            f"{model.rounds_} in the model"
        )
    if int(trace.mistakes.sum()) != model.mistakes_:
        raise ValueError(
            f"trace must be the model's own: it has {int(trace.mistakes.sum())} mistakes, "
            f"the model {model.mistakes_}"
        )
    kernel = competitor_kernel(model)
    radius = sqrt(float(kernel.diagonal(rows).max()))
    labels = np.where(codes == 1, 1.0, -1.0) if len(model.classes_) == 2 else codes.astype(float)
    return Run(trace, rows, labels, kernel, radius, intercept=has_intercept(model))


def _refuse_classes(model: OnlineClassifier, theorems: list[DeclaredTheorem]) -> None:
    """Raise an error if there are more than two classes, and none of the theorems allows that."""
    allowed = SequenceTheorem | ClassesTheorem
    if len(model.classes_) > 2 and not any(isinstance(theorem, allowed) for theorem in theorems):
        raise ValueError(
            f"the theorems are about two classes, the model has {len(model.classes_)}; certify a learner "
            "that separates one class from the rest"
        )


def _choose(model: OnlineClassifier, radius: float, name: str | None) -> DeclaredTheorem:
    """Return the model's theorem of this name, or its default."""
    declared = {theorem.name: theorem for theorem in theorems_of(model, radius)}
    if name is not None and name not in declared:
        raise ValueError(f"theorem must be one of {list(declared)} for {type(model).__name__}; got {name!r}")
    return declared[name] if name is not None else next(iter(declared.values()))


def _run_certificate(
    model: OnlineClassifier,
    run: Run,
    theorem: FunctionTheorem | WeightsTheorem | ImageTheorem,
    competitor: object,
    check: bool,
    verbose: bool,
) -> Certificate:
    assumptions: list[Assumption] = []
    entry = THEOREMS[theorem.name]
    if isinstance(competitor, str) and competitor != "best":
        raise ValueError(f'competitor must be "best", a model, or an expansion; got {competitor!r}')
    scope, most, count = "", None, int(run.trace.mistakes.sum())
    if isinstance(theorem, ImageTheorem):
        given = None if isinstance(competitor, str) else _one_expansion(competitor, run, theorem.name)
        bound, correct = evaluate_images(run, theorem, given, assumptions)
        most = len(run.trace) - int(correct.sum())
    elif isinstance(theorem, WeightsTheorem):
        bound = theorem.bound(run, _weights_of(competitor, run), assumptions)
    else:
        run.loss = theorem.loss
        _set_competitor(run, theorem, competitor, verbose)
        bound, scope = theorem.bound(run, assumptions), theorem.scope
    if not isinstance(theorem, ImageTheorem) and theorem.count is not None:
        count = theorem.count
    if check:
        refuse_failed(assumptions, entry.source)
    return Certificate(
        learner=repr(model),
        theorem=entry.source + scope,
        quantity=entry.quantity,
        count=count,
        bound=bound,
        competitor=run.competitor,
        norm=run.norm,
        losses=run.losses,
        shift=run.shift,
        rounds=len(run.trace),
        most=most,
        assumptions=assumptions,
        expansion=run.expansion,
        loss=run.loss,
    )


def _one_expansion(competitor: object, run: Run, name: str) -> Expansion:
    """Return a competitor for all rounds as an expansion."""
    if isinstance(competitor, list):
        raise ValueError(f"{THEOREMS[name].source} has one competitor for all rounds; got {len(competitor)}")
    return expansion_of(competitor, run.kernel, run.X.shape[1], run.intercept)


def _weights_of(competitor: object, run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Return a competitor as a weight vector, None for the best one."""
    if isinstance(competitor, str):
        return None
    expansion = expansion_of(competitor, run.kernel, run.X.shape[1], run.intercept)
    return expansion.coef @ expansion.rows


def _set_competitor(run: Run, theorem: FunctionTheorem, competitor: object, verbose: bool) -> None:
    """Enter a competitor in the run: the best one, a single one, or a sequence of them."""
    if isinstance(competitor, str):
        find_best_competitor(run, theorem, verbose)
        return
    d = run.X.shape[1]
    if not isinstance(competitor, list):
        set_competitors(run, [(0, expansion_of(competitor, run.kernel, d, run.intercept))])
        return
    if not theorem.drifts:
        raise ValueError(
            f"{THEOREMS[theorem.name].source} has one competitor for all rounds; got {len(competitor)}"
        )
    parts = [(int(start), expansion_of(g, run.kernel, d, run.intercept)) for start, g in competitor]
    set_competitors(run, parts)
