"""What all kernel learners have, classifiers and regressors: the kernel's parameters, and supports."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.sparse import vstack as sparse_vstack
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.batches import Batch
from budgetron._base.compiled_state import kernel_hypothesis
from budgetron._base.fitted_estimator import UNUSED
from budgetron._base.large_values import refuse_large_squares
from budgetron._base.parameters import Constraints
from budgetron._base.row_player import RowPlayer
from budgetron._base.sizes import SLOTS, Prepare, as_it_is, bytes_of_budget, with_params
from budgetron._core.group import LearnerGroup
from budgetron._core.kernel import Kernel
from budgetron._core.rounds import Learner
from budgetron._core.rule import Rule
from budgetron._util.checks import State, require, require_float
from budgetron._util.threads import number_of_threads
from budgetron._util.types import Floats, Ints, Matrix
from budgetron.kernels import NAMES, KernelFunction, Normalized, resolve, resolve_gamma

__all__ = ["KernelEstimator"]

# Supports are stored by their non-zeros if the first batch is a CSR matrix with more than WIDE features, of
# which at most one in SPARSE is not zero. Otherwise whole rows are small enough, and faster.
WIDE, SPARSE = 1000, 32


# The core learns rows in blocks of at most this length; for their non-zeros there must be room.
BLOCK_ROWS = 128

# From this number of rows on, the classes of a batch share their kernel values, and threads may share rows.
SHARED_ROWS = 32


class KernelEstimator(RowPlayer):
    """What all kernel learners have: the kernel and supports. A subclass defines its rule (`_rule`).

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", "allsubsets"}, callable or Normalized, default="rbf"
        The kernel; see `budgetron.kernels`.
    gamma : float, "scale" or "auto", default="scale"
        Width of "rbf" and "laplacian", factor of "poly". "scale" is
        1 / (n_features * X.var()) of the first batch, and does not change afterwards.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Constant term of "poly".
    n_jobs : int, default=None
        Number of threads that compute the kernel values of a batch, in learning and prediction: None is 1
        (but see `joblib.parallel_config`), -1 is all cores. They exist only during the call. BLAS is
        limited to one thread meanwhile. May be changed at any time. It may change the last bits of the
        results.
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "kernel": [StrOptions(set(NAMES)), callable, Normalized],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "degree": [Interval(Integral, 0, 2**31 - 1, closed="both")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "n_jobs": [Integral, None],
    }
    _free_parameters: ClassVar[frozenset[str]] = frozenset({"n_jobs"})
    _learned_names: ClassVar[frozenset[str]] = RowPlayer._learned_names | {"gamma_"}

    kernel: str | KernelFunction | Normalized
    gamma: float | str
    degree: int
    coef0: float
    n_jobs: int | None
    gamma_: float
    _learners: Sequence[Learner]

    def __init__(
        self,
        *,
        kernel: str | KernelFunction | Normalized = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_jobs = n_jobs

    def _rule(self, generator: np.random.Generator) -> Rule:
        """Return the algorithm with this learner's parameters, ready for its first round."""
        raise NotImplementedError(f"{type(self).__name__} must define _rule")

    def _make(self, X: Matrix, outputs: int) -> list[Learner]:
        self.gamma_ = resolve_gamma(self.gamma, X)
        kernel = self._kernel()
        sparse = issparse(X) and X.shape[1] > WIDE and X.nnz * SPARSE <= X.shape[0] * X.shape[1]
        sparse = sparse and kernel.function is None  # a Python function gets rows as arrays
        rules = self._rules(outputs, self._generators(outputs))
        return [Learner(kernel, rule, X.shape[1], X.dtype, sparse) for rule in rules]

    def _rules(self, outputs: int, generators: Sequence[np.random.Generator]) -> list[Rule]:
        """Return a rule for each output, or one for all, given a generator for each output."""
        return [self._rule(generator) for generator in generators]

    def _kernel(self) -> Kernel:
        return resolve(self.kernel, self.gamma_, self.degree, self.coef0)

    def _competitor_kernel(self) -> Kernel:
        return self._learners[0].kernel

    def new_learner(self, row: Floats) -> Learner:
        """Return a new hypothesis of this learner over rows like this one."""
        # By a copy: this estimator itself learns nothing, and gets no fitted attributes.
        return type(self)(**self.get_params(deep=False))._make(row.reshape(1, -1), 1)[0]

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[Learner]:
        self.gamma_ = require_float(found["gamma_"], "gamma")
        require(self.gamma_ > 0.0, "gamma should be above 0")
        kernel, d, outputs = self._kernel(), found["n_features_in_"], self._outputs_in(found)
        # Each with a generator of its own, whose state is then restored
        generators = [
            np.random.Generator(np.random.PCG64(0)) if self._draws() else UNUSED for _ in range(outputs)
        ]
        rules = self._rules(outputs, generators)
        return [
            kernel_hypothesis(rule, kernel, state, d, dtype)
            for rule, state in zip(rules, states, strict=True)
        ]

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        def make(n: int) -> Learner:
            # The width does not matter, and a generator of the caller must not be used.
            model = with_params(self, budget=n, gamma=1.0, random_state=0)
            (learner,) = model._make(X, outputs if self._joint else 1)
            prepare(learner)
            return learner

        budget = self.get_params(deep=False).get("budget")
        hypotheses = 1 if self._joint else outputs
        if not budget:
            return hypotheses * make(0).nbytes
        slots = budget + 1
        one = bytes_of_budget(make)(budget, -slots % SLOTS)
        if make(1).supports.sparse:
            # At most: two rows of all features for single rounds, and for the non-zeros of the supports and
            # of a block half more room than they need.
            one += 2 * X.shape[1] * X.dtype.itemsize
            one += round(1.5 * (slots + BLOCK_ROWS) * X.nnz / X.shape[0] * (4 + X.dtype.itemsize))
        return hypotheses * one

    def _refuse_large(self, X: Matrix, square: float) -> None:
        if not square < np.inf:  # a support is stored with its squared norm
            refuse_large_squares(X)

    def _rounds(self, batch: Batch) -> None:
        outputs = range(len(self._learners))
        alone = len(outputs) == 1 or not self._learners[0].shares_rows
        if alone or batch.ledger is not None or batch.X.shape[0] < SHARED_ROWS:
            super()._rounds(batch)
            return
        assert batch.margins is not None
        sizes = [None for _ in outputs] if batch.sizes is None else list(batch.sizes)
        LearnerGroup(list(self._learners), True).learn(
            batch.X,
            batch.labels,
            list(batch.margins),
            sizes,
            self._threads(),
            [batch.importances for _ in outputs],
        )

    def _learn_output(self, hypothesis: Learner, batch: Batch, i: int, **options: object) -> None:
        super()._learn_output(hypothesis, batch, i, threads=self._threads(), **options)

    def _decide(self, hypothesis: Learner, X: Matrix) -> Floats:
        # For a few rows, to look up the number of threads costs more than one thread needs.
        threads = self._threads() if X.shape[0] >= SHARED_ROWS else 1
        return hypothesis.decide(X, threads=threads)

    def _threads(self) -> int:
        return number_of_threads(self.n_jobs)

    def _fitted(self) -> Sequence[Learner]:
        super()._fitted()
        return self._learners

    @property
    def support_(self) -> Ints:
        """The 0-based round in which each support was added, oldest first.

        If supports are merged, those of each class are listed on their own, one class after the other.
        """
        rounds = np.concatenate([_added(learner) for learner in self._fitted()])
        return rounds[self._distinct(rounds)]

    @property
    def support_vectors_(self) -> Matrix:
        """The supports, in the order of `support_`, one row each; CSR if only non-zeros are stored."""
        rows = [learner.supports.rows(_slots(learner)) for learner in self._fitted()]
        if len(rows) == 1:
            return rows[0]
        first = self._distinct(np.concatenate([_added(learner) for learner in self._learners]))
        return (sparse_vstack(rows, format="csr") if issparse(rows[0]) else np.vstack(rows))[first]

    def _distinct(self, rounds: Ints) -> Ints | slice:
        """Return which supports are listed, given their rounds: each row once, oldest first."""
        if len(self._learners) == 1 or not self._learners[0].shares_rows:
            return slice(None)
        return np.unique(rounds, return_index=True)[1]

    @property
    def dual_coef_(self) -> Floats:
        """Coefficients of shape (n_outputs, n_support_), in the order of `support_`."""
        rounds = self.support_
        if len(self._learners) == 1:
            return np.atleast_2d(self._learners[0].rule.coefficients())
        coef, start = np.zeros((len(self._learners), len(rounds))), 0
        for i, learner in enumerate(self._learners):
            own = np.arange(start, start + learner.n_supports)
            places = np.searchsorted(rounds, _added(learner)) if self._learners[0].shares_rows else own
            coef[i, places] = learner.rule.coefficients()
            start += learner.n_supports
        return coef

    @property
    def n_support_(self) -> int:
        """Number of supports; a support of several classes counts once."""
        return len(self.support_)


def _slots(learner: Learner) -> NDArray[np.int32]:
    """The slots of the supports, oldest first."""
    return learner.supports.order[: learner.supports.m]


def _added(learner: Learner) -> Ints:
    """The round in which each support was added, oldest first."""
    rounds: Ints = learner.supports.rounds[_slots(learner)]
    return rounds
