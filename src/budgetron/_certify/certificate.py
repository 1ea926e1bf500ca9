"""Certificates: what a learner's own theorem says of the run that it made.

A mistake bound holds for every competitor. `certify` takes one (or finds the best), computes what
the theorem asks of it on the very stream that was learned, checks what is assumed, and sets the
bound beside the mistakes that were made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, column_or_1d

from budgetron import bounds, linear
from budgetron._base.batches import encode
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.trace import Trace
from budgetron._certify.cases import Case, cases_of, winnow
from budgetron._certify.competitors import Expansion, Run, expansion_of
from budgetron._certify.svm import Dual
from budgetron._core.kernel import Kernel
from budgetron.bounds import THEOREMS, Assumption, AssumptionError
from budgetron.kernelized import Projectron, ProjectronPlusPlus
from budgetron.portfolio import BudgetClassifier

__all__ = ["Certificate", "certify"]

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Certificate:
    """A bound evaluated on a run and a competitor.

    Attributes
    ----------
    learner : str
        The model.
    theorem : str
        Where the bound is stated.
    quantity : str
        What it bounds: mistakes, updates, expected mistakes, or the loss of a vote.
    count : int or float
        How many there were.
    bound : float
        How many there could be at the most.
    competitor : str
        What the run is compared with.
    norm, losses, shift : float
        Of the competitor: its norm (the largest, if it drifts; not a number for an expert), the sum of its
        hinge losses on the stream (of an expert its mistakes), and the way that it drifts in all.
    assumptions : list of Assumption
        What the theorem assumes, and whether it is so.
    expansion : (rows, coefficients), or None
        The competitor itself, if it is a single one.
    """

    learner: str
    theorem: str
    quantity: str
    count: float
    bound: float
    competitor: str
    norm: float
    losses: float
    shift: float
    rounds: int
    assumptions: list[Assumption] = field(default_factory=list)
    expansion: tuple[Vector, Vector] | None = field(default=None, repr=False)

    @property
    def ratio(self) -> float:
        """The count as a share of the bound."""
        return self.count / self.bound if self.bound > 0 else (0.0 if self.count == 0 else inf)

    @property
    def applies(self) -> bool:
        """Whether all that the theorem assumes is so."""
        return all(assumption.holds for assumption in self.assumptions)

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the number of rounds, and so says nothing."""
        return self.bound >= self.rounds

    @property
    def holds(self) -> bool:
        """Whether the theorem applies and its bound was kept (for an expected number: in this run)."""
        return self.applies and self.count <= self.bound * (1 + bounds.ROUNDING)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as numbers and text."""
        values = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("assumptions", "expansion")
        }
        values |= {name: getattr(self, name) for name in ("ratio", "applies", "vacuous", "holds")}
        return values | {"assumptions": [vars(assumption) for assumption in self.assumptions]}

    def __str__(self) -> str:
        exceeded = "was exceeded, as one run may" if self.quantity.startswith("expected") else "is VIOLATED"
        verdict = "holds" if self.holds else (exceeded if self.applies else "does not apply")
        if self.holds and self.vacuous:
            verdict += ", but is vacuous: no smaller than the number of rounds"
        drift = f", drifts by {self.shift:.4g}" if self.shift else ""
        size = f"norm {self.norm:.4g}, hinge losses" if self.norm == self.norm else "mistakes"
        lines = [
            f"{self.learner} after {self.rounds} rounds",
            f"  theorem      {self.theorem}",
            f"  competitor   {self.competitor}: {size} {self.losses:.6g}{drift}",
            *(
                f"  {'' if i else 'assumes':<12} {'yes' if a.holds else 'NO'}: {a.text}; it is {a.value:.4g}"
                for i, a in enumerate(self.assumptions)
            ),
            f"  {self.quantity:<12} {self.count:.10g}",
            f"  bound        {self.bound:.6g}, of which that is {100 * self.ratio:.1f} %",
            f"  the bound {verdict}",
        ]
        return "\n".join(lines)


# ---------------------------------------------------------------------- the best competitor


def _best(run: Run, case: Case, verbose: bool) -> None:
    """Take on the competitor that makes the bound smallest, or nearly so.

    Where the bound is weight ||g||^2 + losses, up to a factor, that is an SVM without intercept; elsewhere
    the best of several, from stiff to loose.
    """
    dual = Dual(run.kernel, run.X, run.y)
    if case.weight is not None:
        # 1/2 ||g||^2 + C losses: without a weight for the norm, C as large as the ball allows
        C = 1 / (2 * case.weight) if case.weight > 0 else 1e3
        dual.within(C, case.limit, verbose=verbose)
        run.meet([(0, _solution(dual, run, case.limit))])
        return
    if case.separates:  # the largest margin: the SVM that allows no loss
        dual.solve(1e4 / run.radius**2, 1e-6, verbose=verbose)
        run.meet([(0, _solution(dual, run, inf))])
        return
    tried: list[tuple[float, float, Expansion]] = []

    def attempt(C: float) -> None:
        dual.solve(C, 1e-2, verbose=verbose)
        g = _solution(dual, run, inf)
        run.meet([(0, g)])
        bound = case.bound(run, False)
        tried.append((bound if bound > 0 else inf, C, g))

    for C in np.geomspace(1e-3, 1e2, 11):
        attempt(float(C))
    best = min(tried, key=lambda one: one[0])[1]
    for C in np.geomspace(best / 2.5, best * 2.5, 6):
        attempt(float(C))
    run.meet([(0, min(tried, key=lambda one: one[0])[2])])


def _solution(dual: Dual, run: Run, limit: float) -> Expansion:
    """What was found, with its norm in float64, and within the limit."""
    alpha = dual.alpha
    used = np.flatnonzero(alpha) if np.any(alpha) else np.array([0])
    name = "the best, an SVM without intercept"
    g = Expansion(run.kernel, run.X[used], alpha[used] * run.y[used], name)
    norm = g.norm()
    return g if norm <= limit else Expansion(run.kernel, g.rows, g.coef * (limit / norm), name)


# ---------------------------------------------------------------------- the certificate


def _of_experts(model: BudgetClassifier, competitor: Any, theorem: str | None) -> Certificate:
    """What exponential weights promise against the best expert, which the model has counted itself."""
    name = "exponential_weights_anytime"
    if theorem not in (None, name):
        raise ValueError(f"theorem must be one of {[name]} for BudgetClassifier; got {theorem!r}")
    if not isinstance(competitor, str) or competitor != "best":
        raise ValueError('competitor must be "best" for BudgetClassifier: the best of its experts')
    weights = model._learners[0].combiner.weights
    best = int(weights.expert_losses_.argmin())
    least = float(weights.expert_losses_[best])
    return Certificate(
        learner=repr(model),
        theorem=THEOREMS[name].source,
        quantity="loss",
        count=float(weights.loss_),
        bound=least + model.regret_bound_,
        competitor=f"the best expert, {model.experts_[best]['name']}",
        norm=nan,
        losses=least,
        shift=0.0,
        rounds=model.rounds_,
    )


def certify(
    model: OnlineClassifier,
    X: Any,
    y: Any,
    trace: Trace,
    competitor: Any = "best",
    *,
    theorem: str | None = None,
    check: bool = True,
    verbose: bool = False,
) -> Certificate:
    """Evaluate the model's own theorem on the stream that it learned.

    Parameters
    ----------
    model : online learner
        Fitted, on two classes.
    X, y : array-like or CSR matrix of shape (n_rounds, n_features), and labels
        The whole stream, in the order in which it was learned. Sparse rows are made dense.
    trace : Trace
        What `progressive_fit` returned for it; for theorems that speak of the ledger, with
        ``ledger=True``.
    competitor : "best", (rows, coefficients), array, fitted model, or list of (first round, competitor)
        What the run is compared with. A list is a sequence of competitors, each from its first
        round on, for the theorems that allow drift. A weight vector is meant for linear
        learners; models must have the learner's kernel, and intercepts are left out. "best" makes the
        bound smallest, or where it is no SVM's objective nearly so: it takes a quadratic number of kernel
        values, some seconds for 5,000 rounds.
    theorem : str, optional
        Which theorem, where several speak of the learner: a name in `bounds.THEOREMS`.
    check : bool, default=True
        Whether to raise `AssumptionError` where the theorem does not apply. Otherwise the
        certificate says so.
    verbose : bool, default=False
        Whether to report the progress of the search for the best on standard error.

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
    if not isinstance(model, OnlineClassifier):
        raise TypeError(f"model must be one of Budgetron's learners; got {model!r}")
    check_is_fitted(model)
    model._check_parameters()
    if len(model.classes_) > 2:
        raise ValueError("the theorems speak of two classes; certify one class against the rest")
    rows: Any = model._check_rows(X)
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
    if isinstance(model, BudgetClassifier):
        return _of_experts(model, competitor, theorem)
    kernel = _kernel(model)
    radius = sqrt(float(kernel.diagonal(rows).max()))
    cases = [] if isinstance(model, linear.Winnow) else cases_of(model, radius)
    run = Run(model, trace, rows, np.where(codes == 1, 1.0, -1.0), kernel, radius)
    assumptions: list[Assumption] = []
    if isinstance(model, linear.Winnow):
        name = "winnow_general"
        if isinstance(competitor, str) and competitor != "best":
            raise ValueError(f'competitor must be "best", a model, or a weight vector; got {competitor!r}')
        if theorem not in (None, name):
            raise ValueError(f"theorem must be one of {[name]} for Winnow; got {theorem!r}")
        weights = None if isinstance(competitor, str) else expansion_of(competitor, kernel, rows.shape[1])
        bound = winnow(run, None if weights is None else weights.coef @ weights.rows, assumptions)
    else:
        names = {case.name: case for case in cases}
        if theorem is not None and theorem not in names:
            raise ValueError(
                f"theorem must be one of {list(names)} for {type(model).__name__}; got {theorem!r}"
            )
        name = theorem or cases[0].name
        case = names[name]
        _meet(run, case, competitor, verbose)
        bound = case.bound(run, assumptions)
    budget = getattr(model, "budget", None)
    if isinstance(model, Projectron | ProjectronPlusPlus) and budget is not None:
        full = model.n_support_
        bounds.assume(assumptions, full < budget, f"a number of supports below the budget {budget}", full)
    failed = [assumption for assumption in assumptions if not assumption.holds]
    if check and failed:
        raise AssumptionError(f"{THEOREMS[name].source} says nothing here: " + "; ".join(map(str, failed)))
    entry = THEOREMS[name]
    count = (
        getattr(model, "updates_", model.mistakes_)
        if entry.quantity == "updates"
        else int(trace.mistakes.sum())
    )
    return Certificate(
        learner=repr(model),
        theorem=entry.source
        + (
            f", on rows divided by {radius:.4g}"
            if name == "perceptron" and radius > 1 + bounds.ROUNDING
            else ""
        ),
        quantity=entry.quantity,
        count=int(count),
        bound=bound,
        competitor=run.name,
        norm=run.norm,
        losses=run.losses,
        shift=run.shift,
        rounds=len(trace),
        assumptions=assumptions,
        expansion=run.expansion,
    )


def _kernel(model: Any) -> Kernel:
    if isinstance(model, KernelClassifier):
        return model._learners[0].kernel
    return Kernel("linear", normalized=bool(getattr(model, "normalize", False)))


def _meet(run: Run, case: Case, competitor: Any, verbose: bool) -> None:
    if isinstance(competitor, str):
        if competitor != "best":
            raise ValueError(f'competitor must be "best", a model, or an expansion; got {competitor!r}')
        _best(run, case, verbose)
        return
    d = run.X.shape[1]
    if not isinstance(competitor, list):
        run.meet([(0, expansion_of(competitor, run.kernel, d))])
        return
    if not case.drifts:
        raise ValueError(
            f"{THEOREMS[case.name].source} has one competitor for all rounds; got {len(competitor)}"
        )
    run.meet([(int(start), expansion_of(g, run.kernel, d)) for start, g in competitor])
