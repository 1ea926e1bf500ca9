"""`certify`: evaluate a learner's theorem on the stream that it learned."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, column_or_1d

from budgetron._base.access import check_parameters, checked_rows, competitor_kernel, theorems_of
from budgetron._base.batches import encode
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.theorems import (
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
from budgetron._certify.certificate import Certificate
from budgetron._certify.competitors import Expansion, expansion_of, set_competitors
from budgetron._certify.second_order import evaluate_images
from budgetron._util.types import Rows
from budgetron.bounds import THEOREMS, Assumption, AssumptionError
from budgetron.experts import ExpertSequence, best_sequence

__all__ = ["certify"]

# The most switches of a sequence of experts that is searched for as the best competitor.
MOST_SWITCHES = 30
# The most experts of a sequence that a certificate names.
MOST_NAMES = 4


def certify(
    model: OnlineClassifier,
    X: Rows,
    y: ArrayLike,
    trace: Trace,
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
        Fitted, on two classes. The theorems about votes of experts allow more.
    X, y : array-like or CSR matrix of shape (n_rounds, n_features), and labels
        The whole stream, in the order in which it was learned. Sparse rows are converted to dense ones.
    trace : Trace
        What `progressive_fit` returned for it. Theorems about the ledger, and comparisons with sequences of
        experts that switch, need ``ledger=True`` there.
    competitor : "best", (rows, coefficients), array, fitted model, list of (first round, competitor), or int
        What the run is compared with. A list is a sequence of competitors, each from its first round on, for
        the theorems that allow drift. A weight vector is meant for linear learners. Models must have the
        learner's kernel; their intercepts are ignored. An integer is the number of switches of a sequence of
        experts, for the theorems that compare with such sequences. "best" searches for the competitor with
        the smallest bound, and finds it or one nearly as good. The search computes a quadratic number of
        kernel values: some seconds for 5,000 rounds.
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
    run = _run_of(model, X, y, trace)
    chosen = _choose(model, run.radius, theorem)
    if isinstance(chosen, SequenceTheorem):
        return _sequence_certificate(model, run, chosen, competitor, check)
    _refuse_classes(model, [chosen])
    if isinstance(chosen, VoteTheorem):
        return _vote_certificate(model, run, chosen, competitor, check)
    return _run_certificate(model, run, chosen, competitor, check, verbose)


def _run_of(model: OnlineClassifier, X: Rows, y: ArrayLike, trace: Trace) -> Run:
    """Return the stream as a run without a competitor, after checking that the model learned it."""
    if not isinstance(model, OnlineClassifier):
        raise TypeError(f"model must be one of Budgetron's learners; got {model!r}")
    check_is_fitted(model)
    check_parameters(model)
    _refuse_classes(model, theorems_of(model, 1.0))  # of which kinds they are does not depend on the radius
    rows = checked_rows(model, X)
    rows = np.ascontiguousarray(rows.toarray() if issparse(rows) else rows, float)
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
    return Run(trace, rows, labels, kernel, radius)


def _refuse_classes(model: OnlineClassifier, theorems: list[DeclaredTheorem]) -> None:
    """Raise an error if there are more than two classes, and none of the theorems allows that."""
    if len(model.classes_) > 2 and not any(isinstance(theorem, SequenceTheorem) for theorem in theorems):
        raise ValueError(
            f"the theorems are about two classes, the model has {len(model.classes_)}; certify a learner "
            "that separates one class from the rest"
        )


def _choose(model: OnlineClassifier, radius: float, name: str | None) -> DeclaredTheorem:
    """Return the model's theorem of this name, or its default."""
    declared = {theorem.name: theorem for theorem in theorems_of(model, radius)}
    if not declared:
        raise ValueError(f"the papers state no theorem for {model!r}")
    if name is not None and name not in declared:
        raise ValueError(f"theorem must be one of {list(declared)} for {type(model).__name__}; got {name!r}")
    return declared[name] if name is not None else next(iter(declared.values()))


def _sequence_certificate(
    model: OnlineClassifier, run: Run, theorem: SequenceTheorem, competitor: object, check: bool
) -> Certificate:
    count, losses = theorem.losses(run)
    if isinstance(competitor, int) and not isinstance(competitor, bool) and competitor >= 0:
        if competitor and run.trace.ledger is None:
            raise ValueError(
                "a comparison with sequences of experts that switch needs the losses of every round: make "
                "the trace with progressive_fit(..., ledger=True)"
            )
        best, switches = best_sequence(losses, competitor), competitor
    elif isinstance(competitor, str) and competitor == "best":
        # All numbers of switches come from one table. Assumptions on the switches hold for all of them.
        found = best_sequence(losses, min(MOST_SWITCHES, len(losses) - 1)).smallest_losses
        switches = int(np.argmin([loss + theorem.regret(run, k, []) for k, loss in enumerate(found)]))
        best = best_sequence(losses, switches)
    else:
        raise ValueError(
            f'competitor must be "best", or a number of switches, for {type(model).__name__}; '
            f"got {competitor!r}"
        )
    assumptions: list[Assumption] = []
    bound = best.loss + theorem.regret(run, switches, assumptions)
    source = THEOREMS[theorem.name].source
    if check:
        _refuse_failed(assumptions, source)
    return Certificate(
        learner=repr(model),
        theorem=source,
        quantity="loss",
        count=count,
        bound=bound,
        competitor=_sequence_name(best, switches, theorem.experts),
        norm=nan,
        losses=best.loss,
        shift=0.0,
        rounds=model.rounds_,
        assumptions=assumptions,
    )


def _sequence_name(best: ExpertSequence, switches: int, names: Sequence[str]) -> str:
    """Return what a certificate says about a sequence of experts."""
    starts = np.flatnonzero(np.diff(best.experts, prepend=-1))
    experts = [f'"{names[i]}"' for i in best.experts[starts]]
    if not switches:
        return f"the best expert, {experts[0]}"
    listed = ", ".join(experts[:MOST_NAMES]) + (", ..." if len(experts) > MOST_NAMES else "")
    return (
        f"the best sequence of experts with at most {switches} switch{'es' if switches > 1 else ''}, {listed}"
    )


def _vote_certificate(
    model: OnlineClassifier, run: Run, theorem: VoteTheorem, competitor: object, check: bool
) -> Certificate:
    if not isinstance(competitor, str) or competitor != "best":
        raise ValueError(
            f'competitor must be "best" for this theorem: that of the expert with the smallest bound; '
            f"got {competitor!r}"
        )
    vote, expert = THEOREMS[theorem.vote.name].source, THEOREMS[theorem.name].source
    assumptions: list[Assumption] = []
    found = []
    for name, own, of_expert in theorem.experts(run):
        collected: list[Assumption] = []
        found.append((*evaluate_images(own, of_expert, None, collected), name, own, collected))
    bound, correct_updates, name, own, collected = min(found, key=lambda one: one[0])
    regret = theorem.vote.regret(run, 0, assumptions)
    assumptions += collected
    if check:
        _refuse_failed(assumptions, f"{vote}, with {expert}")
    return Certificate(
        learner=repr(model),
        theorem=f"{vote}; for the expert: {expert}",
        quantity="loss",
        count=theorem.vote.losses(run)[0],
        bound=bound + regret,
        competitor=f'the best linear function found for the expert "{name}"',
        norm=own.norm,
        losses=own.losses,
        shift=0.0,
        rounds=len(run.trace),
        most=int(len(run.trace) - correct_updates + regret),
        assumptions=assumptions,
    )


def _refuse_failed(assumptions: list[Assumption], source: str) -> None:
    """Raise `AssumptionError` if an assumption does not hold."""
    failed = [assumption for assumption in assumptions if not assumption.holds]
    if failed:
        raise AssumptionError(f"{source} does not apply: " + "; ".join(map(str, failed)))


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
        bound, correct_updates = evaluate_images(run, theorem, given, assumptions)
        most = len(run.trace) - correct_updates
    elif isinstance(theorem, WeightsTheorem):
        bound = theorem.bound(run, _weights_of(competitor, run), assumptions)
    else:
        _set_competitor(run, theorem, competitor, verbose)
        bound, scope = theorem.bound(run, assumptions), theorem.scope
    if not isinstance(theorem, ImageTheorem) and theorem.count is not None:
        count = theorem.count
    if check:
        _refuse_failed(assumptions, entry.source)
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
    )


def _one_expansion(competitor: object, run: Run, name: str) -> Expansion:
    """Return a competitor for all rounds as an expansion."""
    if isinstance(competitor, list):
        raise ValueError(f"{THEOREMS[name].source} has one competitor for all rounds; got {len(competitor)}")
    return expansion_of(competitor, run.kernel, run.X.shape[1])


def _weights_of(competitor: object, run: Run) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Return a competitor as a weight vector, None for the best one."""
    if isinstance(competitor, str):
        return None
    expansion = expansion_of(competitor, run.kernel, run.X.shape[1])
    return expansion.coef @ expansion.rows


def _set_competitor(run: Run, theorem: FunctionTheorem, competitor: object, verbose: bool) -> None:
    """Enter a competitor in the run: the best one, a single one, or a sequence of them."""
    if isinstance(competitor, str):
        find_best_competitor(run, theorem, verbose)
        return
    d = run.X.shape[1]
    if not isinstance(competitor, list):
        set_competitors(run, [(0, expansion_of(competitor, run.kernel, d))])
        return
    if not theorem.drifts:
        raise ValueError(
            f"{THEOREMS[theorem.name].source} has one competitor for all rounds; got {len(competitor)}"
        )
    set_competitors(run, [(int(start), expansion_of(g, run.kernel, d)) for start, g in competitor])
