"""Certificates: what a learner's own theorem says of the run that it made.

A mistake bound holds for every competitor. `certify` takes one (or finds the best), computes what
the theorem asks of it on the very stream that was learned, checks what is assumed, and sets the
bound beside the mistakes that were made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import issparse
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.validation import check_is_fitted, column_or_1d

from budgetron import bounds, linear
from budgetron._core.kernel import Kernel
from budgetron._face import OnlineClassifier, encode
from budgetron._kernel_face import KernelClassifier
from budgetron._linear_face import LinearClassifier
from budgetron._svm import Dual
from budgetron._trace import Trace
from budgetron.bounds import THEOREMS, Assumption, AssumptionError
from budgetron.kernelized import (
    Forgetron,
    KernelPerceptron,
    Projectron,
    ProjectronPlusPlus,
    RandomizedBudgetPerceptron,
    RemoveOldestPerceptron,
    ShrinkingPerceptron,
    VotedKernelPerceptron,
)
from budgetron.kernels import NAMES

__all__ = ["Certificate", "certify"]

Vector = NDArray[np.float64]
ROWS_AT_ONCE = 1024


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
        What it bounds: mistakes, updates, or expected mistakes.
    count : int
        How many there were.
    bound : float
        How many there could be at the most.
    competitor : str
        What the run is compared with.
    norm, losses, shift : float
        Of the competitor: its norm (the largest, if it drifts), the sum of its hinge losses on the
        stream, and the way that it drifts in all.
    assumptions : list of Assumption
        What the theorem assumes, and whether it is so.
    expansion : (rows, coefficients), or None
        The competitor itself, if it is a single one.
    """

    learner: str
    theorem: str
    quantity: str
    count: int
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
        lines = [
            f"{self.learner} after {self.rounds} rounds",
            f"  theorem      {self.theorem}",
            f"  competitor   {self.competitor}: norm {self.norm:.4g}, hinge losses {self.losses:.6g}{drift}",
            *(
                f"  {'' if i else 'assumes':<12} {'yes' if a.holds else 'NO'}: {a.text}; it is {a.value:.4g}"
                for i, a in enumerate(self.assumptions)
            ),
            f"  {self.quantity:<12} {self.count}",
            f"  bound        {self.bound:.6g}, of which that is {100 * self.ratio:.1f} %",
            f"  the bound {verdict}",
        ]
        return "\n".join(lines)


# ---------------------------------------------------------------------- competitors


@dataclass(frozen=True)
class _Expansion:
    """g = sum of coef_i k(rows_i, .)."""

    kernel: Kernel
    rows: Vector
    coef: Vector
    name: str

    def values(self, X: Vector) -> Vector:
        out = np.zeros(len(X))
        for start in range(0, len(X), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            out[part] = self.kernel.matrix(X[part], self.rows) @ self.coef
        return out

    def norm(self) -> float:
        return sqrt(max(0.0, float(self.coef @ self.values(self.rows))))

    def distance(self, other: _Expansion) -> float:
        rows, coef = np.vstack([self.rows, other.rows]), np.concatenate([self.coef, -other.coef])
        return _Expansion(self.kernel, rows, coef, "").norm()


def _same_kernel(kernel: Kernel, other: Kernel, what: str) -> None:
    names = ["name", "normalized", "function"]
    names += {"rbf": ["gamma"], "laplacian": ["gamma"], "poly": ["gamma", "degree", "coef0"]}.get(
        kernel.name, []
    )
    for name in names:
        ours, theirs = getattr(kernel, name), getattr(other, name)
        if ours != theirs:
            raise ValueError(
                f"the competitor must have the learner's kernel; {name} is {theirs} in {what}, not {ours}"
            )


def _weights(w: Vector, kernel: Kernel, what: str) -> tuple[Vector, Vector]:
    """A weight vector as an expansion of one term."""
    if not kernel.normalized:
        _same_kernel(kernel, Kernel("linear"), what)
        return w[None, :], np.ones((1, 1))
    _same_kernel(kernel, Kernel("linear", normalized=True), what)
    return w[None, :], np.array([[np.linalg.norm(w)]])  # w . x / ||x|| = ||w|| k(w, x)


def _expansion(competitor: Any, kernel: Kernel, d: int) -> _Expansion:
    """The competitor as an expansion over the learner's kernel."""
    what = type(competitor).__name__
    if isinstance(competitor, KernelClassifier):
        check_is_fitted(competitor)
        _same_kernel(kernel, competitor._learners[0].kernel, what)
        rows, coef = competitor.support_vectors_, competitor.dual_coef_
    elif isinstance(competitor, SVC):
        check_is_fitted(competitor)
        if not callable(competitor.kernel) and competitor.kernel not in NAMES:
            raise ValueError(f"the competitor must have the learner's kernel; SVC has {competitor.kernel!r}")
        theirs = Kernel(competitor.kernel, competitor._gamma, competitor.degree, competitor.coef0)
        _same_kernel(kernel, theirs, what)
        rows, coef = competitor.support_vectors_, competitor.dual_coef_
        rows, coef = (a.toarray() if issparse(a) else a for a in (rows, coef))
        what += " without its intercept"
    elif isinstance(competitor, LinearSVC | LinearClassifier) or hasattr(competitor, "coef_"):
        check_is_fitted(competitor)
        weights = np.atleast_2d(np.asarray(competitor.coef_, float))
        if len(weights) != 1:
            raise ValueError(f"the competitor must tell two classes apart; {what} has {len(weights)} outputs")
        rows, coef = _weights(weights[0], kernel, what)
        if np.any(getattr(competitor, "intercept_", 0.0)):
            what += " without its intercept"
    elif isinstance(competitor, tuple) and len(competitor) == 2:
        rows, coef = np.asarray(competitor[0], float), np.asarray(competitor[1], float)[None, :]
        what = "an expansion"
    elif isinstance(competitor, np.ndarray) and competitor.ndim == 1:
        what = "a weight vector"
        rows, coef = _weights(np.asarray(competitor, float), kernel, what)
    else:
        raise TypeError(
            'competitor must be "best", (rows, coefficients), a weight vector, a fitted model, or a list of '
            f"(first round, competitor); got {competitor!r}"
        )
    if len(coef) != 1:
        raise ValueError(f"the competitor must tell two classes apart; {what} has {len(coef)} outputs")
    if rows.ndim != 2 or rows.shape[1] != d or rows.shape[0] != coef.shape[1]:
        raise ValueError(
            f"the competitor must have rows of {d} features and a coefficient each; "
            f"got {rows.shape} and {coef[0].shape}"
        )
    if not (np.isfinite(rows).all() and np.isfinite(coef).all()):
        raise ValueError("the competitor must be finite")
    return _Expansion(kernel, np.ascontiguousarray(rows, float), np.ascontiguousarray(coef[0], float), what)


@dataclass
class _Run:
    """The stream, what happened on it, and a competitor's part in it."""

    model: Any
    trace: Trace
    X: Vector
    y: Vector
    kernel: Kernel
    radius: float
    norm: float = 0.0
    margins: Vector = field(default_factory=lambda: np.zeros(0))  # y g(x)
    shift: float = 0.0
    name: str = ""
    expansion: tuple[Vector, Vector] | None = None

    @property
    def losses(self) -> float:
        return float(np.maximum(0.0, 1.0 - self.margins).sum())

    def meet(self, parts: Sequence[tuple[int, _Expansion]]) -> None:
        """Take on competitors, each from its first round on."""
        starts = [start for start, _ in parts]
        if starts[0] != 0 or sorted(set(starts)) != starts or starts[-1] >= len(self.y):
            raise ValueError(f"competitors must begin at 0 and at later rounds of the stream; got {starts}")
        self.margins = np.empty(len(self.y))
        for (start, g), end in zip(parts, [*starts[1:], len(self.y)], strict=True):
            self.margins[start:end] = self.y[start:end] * g.values(self.X[start:end])
        self.norm = max(g.norm() for _, g in parts)
        self.shift = sum(b.distance(a) for (_, a), (_, b) in pairwise(parts))
        self.expansion = (parts[0][1].rows, parts[0][1].coef) if len(parts) == 1 else None
        self.name = parts[0][1].name if len(parts) == 1 else f"{len(parts)} in turn"

    def entries(self, name: str) -> Vector:
        """A column of the ledger."""
        if self.trace.ledger is None:
            raise ValueError(
                "this theorem speaks of the ledger; make the trace with progressive_fit(..., ledger=True)"
            )
        values: Vector = self.trace.ledger[name]
        return values


# ---------------------------------------------------------------------- theorems


@dataclass(frozen=True)
class _Case:
    """A theorem as it applies to a model.

    `bound` evaluates it on a run. The best competitor minimizes weight ||g||^2 + sum of hinge losses
    within `limit`, where that is the form of the bound; otherwise weight is None.
    """

    name: str
    bound: Callable[[_Run, Any], float]
    weight: float | None
    limit: float = inf
    drifts: bool = False
    separates: bool = False  # whether the competitor must separate the rows


def _perceptron_cases(radius: float) -> list[_Case]:
    # Dividing all rows by a number changes no prediction of the Perceptron, and multiplies ||g|| by it.
    scale = max(1.0, radius)

    def plain(run: _Run, check: Any) -> float:
        return bounds.perceptron(scale * run.norm, run.losses, run.radius / scale, check=check)

    def at_own_scale(theorem: Callable[..., float], order: int) -> Callable[[_Run, Any], float]:
        # rho = 1 / ||g|| for g / ||g||: the rho-hinge losses are g's hinge losses, on the updates alone
        def bound(run: _Run, check: Any) -> float:
            losses = np.maximum(0.0, 1.0 - run.margins[run.trace.mistakes])
            rho = 1 / run.norm if run.norm else inf
            return theorem(run.radius, rho, float(np.linalg.norm(losses, order)), check=check)

        return bound

    return [
        _Case("perceptron", plain, scale**2 / 2),
        _Case("perceptron_l1", at_own_scale(bounds.perceptron_l1, 1), None),
        _Case("perceptron_l2", at_own_scale(bounds.perceptron_l2, 2), None),
    ]


def _cases(model: Any, radius: float) -> list[_Case]:
    """The theorems that speak of a model, the first one by default."""
    if isinstance(
        model, KernelPerceptron | VotedKernelPerceptron | linear.Perceptron | linear.VotedPerceptron
    ):
        return _perceptron_cases(radius)
    if isinstance(model, RemoveOldestPerceptron):
        return [
            _Case(
                "remove_oldest",
                lambda run, check: bounds.remove_oldest(
                    run.norm, run.losses, float(np.nansum(run.entries("psi"))), run.radius, check=check
                ),
                0.5,
            )
        ]
    if isinstance(model, ShrinkingPerceptron):

        def shrinking(run: _Run, check: Any) -> float:
            of = run.trace.mistakes
            total = bounds.log_shrinking(run.entries("phi")[of], run.entries("norm")[of], run.norm)
            return bounds.shrinking_perceptron(run.norm, run.losses, total, run.radius, check=check)

        return [_Case("shrinking_perceptron", shrinking, None)]
    if isinstance(model, Forgetron) and model.variant != "simplified":
        return [
            _Case(
                "forgetron",
                lambda run, check: bounds.forgetron(
                    run.norm, run.losses, model.budget, run.radius, check=check
                ),
                0.5,
                bounds.norm_limit(model.budget),
            ),
            _Case("forgetron_ledger", _forgetron_ledger, None),
        ]
    if isinstance(model, Forgetron) and (model.eta, model.decay, model.radius) == (None, None, None):
        return [
            _Case(
                "simplified_forgetron",
                lambda run, check: bounds.simplified_forgetron(
                    run.norm, run.losses, model.budget, run.shift, run.radius, check=check
                ),
                0.0,
                bounds.drift_limit(model.budget) / 2,
                True,
            )
        ]
    if isinstance(model, RandomizedBudgetPerceptron) and model.variant == "modified":
        if (model.eta, model.radius) == (None, None):
            return [
                _Case(
                    "modified_randomized_budget",
                    lambda run, check: bounds.modified_randomized_budget(
                        run.norm, run.losses, model.budget, run.shift, run.radius, check=check
                    ),
                    0.0,
                    sqrt(model.budget) / 8,
                    True,
                )
            ]
    elif isinstance(model, Projectron) and model.norm_bound is None:
        # What is nearer than this counts as within the span, and is projected in any case.
        least = sqrt(1e-5 if model._learners[0].supports.single else 1e-12) * radius
        eta = max(model._threshold(), least if model._threshold() > 0 or least > 1e-5 else 0.0)
        return [
            _Case(name, partial(_projectron, theorem, eta), None)
            for name, theorem in (
                ("projectron", bounds.projectron),
                ("projectron_root", bounds.projectron_root),
            )
        ]
    elif isinstance(model, Projectron) and model.norm_bound is not None:
        limit = model.norm_bound
        return [
            _Case(
                "projectron_norm_bound",
                lambda run, check: bounds.projectron_norm_bound(
                    run.norm, run.losses, limit, run.radius, check=check
                ),
                0.5,
                limit,
            )
        ]
    elif isinstance(model, ProjectronPlusPlus) and model.eta is None:
        return [
            _Case(
                "projectron_plus_plus",
                lambda run, check: bounds.projectron_plus_plus(
                    run.norm,
                    run.losses,
                    float(np.nansum(run.entries("beta"))),
                    model.norm_bound,
                    run.radius,
                    check=check,
                ),
                0.5,
                model.norm_bound,
            )
        ]
    elif isinstance(model, linear.MarginPerceptron):
        return [_Case("margin_perceptron", _margin_perceptron, None, separates=True)]
    raise ValueError(f"the papers state no theorem for {model!r}")


def _forgetron_ledger(run: _Run, check: Any) -> float:
    of = run.trace.mistakes
    norms = np.concatenate([[0.0], run.entries("norm")])[:-1]
    own = run.kernel.diagonal(run.X)
    before = np.sqrt(np.maximum(0.0, norms**2 + 2 * run.y * run.trace.margins + own))[of]  # ||f'_t||
    phi = run.entries("phi")[of]
    shrinking = bounds.log_shrinking(phi, phi * before, run.norm)
    damage = float(np.nansum(run.entries("psi")))
    return bounds.forgetron_ledger(run.norm, run.losses, shrinking, damage, run.radius, check=check)


def _projectron(theorem: Callable[..., float], eta: float, run: _Run, check: Any) -> float:
    return theorem(run.norm, run.losses, eta, run.radius, check=check)


def _margin_perceptron(run: _Run, check: Any) -> float:
    rho = run.model.margin
    reached = float(run.margins.min()) / run.norm if run.norm else 0.0
    bounds._assume(
        check,
        reached >= rho * (1 - bounds.ROUNDING),
        f"a margin of the competitor of at least {rho:.6g}",
        reached,
    )
    return bounds.margin_perceptron(run.radius, rho, check=check)


def _winnow(run: _Run, weights: Vector | None, check: Any) -> float:
    """Winnow's theorem, whose competitors are weights >= 0 that sum to 1; without any, the best."""
    model, T = run.model, len(run.y)
    rows = run.y[:, None] * (np.hstack([run.X, -run.X]) if model.balanced else run.X)
    n = rows.shape[1]
    if weights is None:
        # the largest rho with rows v >= rho, v >= 0, sum v = 1
        found = linprog(
            np.append(np.zeros(n), -1.0),
            A_ub=np.hstack([-rows, np.ones((T, 1))]),
            b_ub=np.zeros(T),
            A_eq=np.append(np.ones(n), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * n + [(None, None)],
        )
        v, run.name = found.x[:n], "the weights of largest margin"
    else:
        v = np.concatenate([np.maximum(weights, 0), np.maximum(-weights, 0)]) if model.balanced else weights
        run.name = "a weight vector"
        bounds._assume(check, bool(np.all(v >= 0)), "a least weight of at least 0", float(v.min()))
    v = v / np.abs(v).sum()
    run.norm, run.margins = 1.0, rows @ v
    radius = float(np.abs(run.X).max())
    return bounds.winnow_general(radius, float(run.margins.min()), n, model.eta, check=check)


# ---------------------------------------------------------------------- the best competitor


def _best(run: _Run, case: _Case, verbose: bool) -> None:
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
    tried: list[tuple[float, float, _Expansion]] = []

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


def _solution(dual: Dual, run: _Run, limit: float) -> _Expansion:
    """What was found, with its norm in float64, and within the limit."""
    alpha = dual.alpha
    used = np.flatnonzero(alpha) if np.any(alpha) else np.array([0])
    name = "the best, an SVM without intercept"
    g = _Expansion(run.kernel, run.X[used], alpha[used] * run.y[used], name)
    norm = g.norm()
    return g if norm <= limit else _Expansion(run.kernel, g.rows, g.coef * (limit / norm), name)


# ---------------------------------------------------------------------- the certificate


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
    kernel = _kernel(model)
    radius = sqrt(float(kernel.diagonal(rows).max()))
    cases = [] if isinstance(model, linear.Winnow) else _cases(model, radius)
    run = _Run(model, trace, rows, np.where(codes == 1, 1.0, -1.0), kernel, radius)
    assumptions: list[Assumption] = []
    if isinstance(model, linear.Winnow):
        name = "winnow_general"
        if isinstance(competitor, str) and competitor != "best":
            raise ValueError(f'competitor must be "best", a model, or a weight vector; got {competitor!r}')
        if theorem not in (None, name):
            raise ValueError(f"theorem must be one of {[name]} for Winnow; got {theorem!r}")
        weights = None if isinstance(competitor, str) else _expansion(competitor, kernel, rows.shape[1])
        bound = _winnow(run, None if weights is None else weights.coef @ weights.rows, assumptions)
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
        bounds._assume(assumptions, full < budget, f"a number of supports below the budget {budget}", full)
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


def _meet(run: _Run, case: _Case, competitor: Any, verbose: bool) -> None:
    if isinstance(competitor, str):
        if competitor != "best":
            raise ValueError(f'competitor must be "best", a model, or an expansion; got {competitor!r}')
        _best(run, case, verbose)
        return
    d = run.X.shape[1]
    if not isinstance(competitor, list):
        run.meet([(0, _expansion(competitor, run.kernel, d))])
        return
    if not case.drifts:
        raise ValueError(
            f"{THEOREMS[case.name].source} has one competitor for all rounds; got {len(competitor)}"
        )
    run.meet([(int(start), _expansion(g, run.kernel, d)) for start, g in competitor])
