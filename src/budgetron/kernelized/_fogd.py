"""Fourier online gradient descent (Lu, Hoi, Wang, Zhao, Liu 2016)."""

from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import cython
import numpy as np
from cython.cimports.budgetron._core.descent import HINGE_LOSS, LOGISTIC_LOSS, slope_of, step_of
from cython.cimports.budgetron._core.linear import LinearRule
from cython.cimports.budgetron._core.rule import TAU
from cython.cimports.libc.math import exp, fabs, isfinite, sqrt
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from budgetron._base.compiled_state import fourier_hypothesis
from budgetron._base.descent import DESCENT, check_decay, descent_theorem, places_of, steps_of
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.parameters import Constraints
from budgetron._base.sizes import Prepare, as_it_is, bytes_of_width
from budgetron._base.theorems import DeclaredTheorem
from budgetron._base.unmergeable import UnmergeableClassifier
from budgetron._core.fourier import FourierHypothesis, fourier_features
from budgetron._core.kernel import Kernel
from budgetron._util.checks import State, require, require_float
from budgetron._util.types import Floats, Matrix
from budgetron.kernels import resolve_gamma

# The largest number of frequencies.
MOST_COMPONENTS = 2**20


@cython.cclass
class FourierRule(LinearRule):
    """In every round, shrink the weights and take a step along the gradient of the loss."""

    loss: cython.int
    schedule: cython.int
    eta: cython.double
    decay: cython.double  # lambda
    # For each output, the step of the round
    steps: object
    _steps: cython.p_double

    def __init__(
        self, d: int, single: bool, loss: int, schedule: int, eta: float, decay: float, outputs: int
    ) -> None:
        # The features have norm 1. The slopes of all outputs together have norm sqrt(2) at most; 1.5 leaves
        # room for rounding.
        reach = eta * 1.5 if loss in (HINGE_LOSS, LOGISTIC_LOSS) else 0.0
        LinearRule.__init__(self, d, single, ledger=("tau", "norm"), reach=reach, outputs=outputs)
        self.loss = loss
        self.schedule = schedule
        self.eta = eta
        self.decay = decay
        self.set_outputs(outputs)

    def set_outputs(self, outputs: int) -> None:
        """Consist of this many functions from now on."""
        LinearRule.set_outputs(self, outputs)
        self.steps = np.zeros(outputs)
        self.set_argument(6, outputs)  # copies of the rule are made with it
        self.set_pointers()

    @cython.cfunc
    def set_pointers(self) -> cython.void:
        LinearRule.set_pointers(self)
        if self.steps is not None:
            steps: cython.size_t = np.asarray(self.steps).ctypes.data
            self._steps = cython.cast(cython.p_double, steps)

    def arrays(self) -> dict[str, Any]:
        """Return all arrays that outlive a round, by name."""
        arrays: dict[str, Any] = LinearRule.arrays(self) | {"steps": self.steps}
        return arrays

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def rounding(self) -> cython.double:
        """Return the largest difference at which losses and scores count as equal."""
        return 1e-4 if self.single else 1e-9

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def needs_update(self) -> cython.bint:
        if self.decay > 0.0 and self.norm2 > 0.0:
            return True
        if self.loss == HINGE_LOSS:
            return 1.0 - self.y * self.margin > self.rounding()
        return self.outputs > 1 or slope_of(self.loss, self.y * self.margin, 0.0) != 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def update(self) -> cython.int:
        eta: cython.double = step_of(self.schedule, self.eta, self.rounds + 1.0)  # t counts all rounds
        length: cython.double = self.choose_steps(eta)
        longest: cython.double = self.norm() + length
        self.check(length, longest * longest)  # before anything has changed
        self.note(TAU, length)
        self.shrink(1.0 - eta * self.decay)  # (1 - eta_t lambda) w_t
        if length == 0.0:
            return 1
        if self.outputs == 1:
            self.add(self._steps[0])
        else:
            self.add_vectors(self._steps, self.x)
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def check(self, step: cython.double, after: cython.double) -> cython.int:
        """Raise an error if a step is not finite, or the square of the norm after it."""
        if not isfinite(step) or not isfinite(after):
            with cython.gil:
                raise ValueError(
                    f"the step of round {self.rounds} is not finite, because the steps grow from round to "
                    f"round: use an eta below {self.eta:.4g}"
                )
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def choose_steps(self, eta: cython.double) -> cython.double:
        """Compute the step of each output, and return the norm of all."""
        c: cython.Py_ssize_t
        square: cython.double = 0.0
        if self.outputs == 1:
            self._steps[0] = eta * self.y * slope_of(self.loss, self.y * self.margin, self.rounding())
            return fabs(self._steps[0])
        if self.loss == HINGE_LOSS:
            self.choose_hinge()
        elif self.loss == LOGISTIC_LOSS:
            self.choose_logistic()
        else:
            for c in range(self.outputs):
                self._steps[c] = (1.0 if c == self.target else -1.0) - self._scores[c]
        for c in range(self.outputs):
            self._steps[c] *= eta
            square += self._steps[c] * self._steps[c]
        return sqrt(square)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def choose_hinge(self) -> cython.void:
        """Raise the score of the right class, and lower the largest other one; of ties, the first."""
        c: cython.Py_ssize_t
        other: cython.Py_ssize_t = -1
        for c in range(self.outputs):
            self._steps[c] = 0.0
            if c != self.target and (other < 0 or self._scores[c] > self._scores[other] + self.rounding()):
                other = c
        if 1.0 - self.margin > self.rounding():
            self._steps[self.target] = 1.0
            self._steps[other] = -1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def choose_logistic(self) -> cython.void:
        """Compute 1 for the right class, minus the probability of each class."""
        c: cython.Py_ssize_t
        largest: cython.double = self._scores[0]
        total: cython.double = 0.0
        for c in range(self.outputs):
            largest = max(largest, self._scores[c])
        for c in range(self.outputs):
            self._steps[c] = exp(self._scores[c] - largest)
            total += self._steps[c]
        for c in range(self.outputs):
            self._steps[c] = (1.0 if c == self.target else 0.0) - self._steps[c] / total


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class FourierKernel:
    """The inner product of the Fourier features of two rows."""

    def __init__(self, frequencies: NDArray[Any]) -> None:
        self.frequencies = frequencies.astype(np.float64)

    def __call__(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
        """Return the kernel values of the rows of A with those of B."""
        values: NDArray[Any] = fourier_features(A, self.frequencies) @ fourier_features(B, self.frequencies).T
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FourierKernel) and np.array_equal(self.frequencies, other.frequencies)

    def __hash__(self) -> int:
        return hash(self.frequencies.tobytes())


@cython.annotation_typing(False)  # annotations for readers; Cython ignores them
class FOGD(UnmergeableClassifier):
    """Online gradient descent on random Fourier features of the "rbf" kernel.

    It stores no rows: its memory and time depend on the number of frequencies alone, and are the same in
    every round. It also suits streams whose rows drift to regions that the fixed supports of `NOGD` do not
    cover. With few frequencies it makes more mistakes than learners that choose supports.

    Parameters
    ----------
    n_components : int, default=100
        The number of frequencies. Each has two features, a cosine and a sine.
    eta : float, default=0.2
        The step, or its constant; see `schedule`.
    decay : float, default=0.0
        lambda: in every round the weights are multiplied by 1 - eta_t lambda, which must not be below 0.
    loss : {"hinge", "logistic", "squared"}, default="hinge"
        With two classes max(0, 1 - y f(x)), log(1 + exp(-y f(x))), or (y - f(x))^2 / 2. With more, there is
        a function for each class: "hinge" is max(0, 1 - (the score of the right class - the largest other
        one)), "logistic" minus the logarithm of the softmax of the right class, and "squared" the sum over
        the classes, where y is 1 for the right class and -1 for the others.
    schedule : {"constant", "sqrt", "inverse"}, default="constant"
        The step of round t, counted from 1: eta, eta / sqrt(t), or eta / t.
    gamma : float, "scale" or "auto", default="scale"
        Width of the kernel. "scale" is 1 / (n_features * X.var()) of the first batch, and does not change
        afterwards.
    random_state : int, RandomState or None, default=None
        Determines the frequencies.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features, n_components)
    weights_ : ndarray of shape (n_outputs, 2 * n_components)
        The weights of the cosines, and then of the sines.

    Notes
    -----
    Cost per round with D frequencies and C outputs (1 for two classes): O(D d) for the features, of a sparse
    row O(D non-zeros), and O(C D). In batches, the features of a block are one matrix product. Memory:
    O(D d + C D). All classes use the same features.

    The features are divided by sqrt(D), so that their inner product approximates the kernel and their norm
    is 1. The paper does not divide; its step is ours divided by D. With more than two classes, the hinge loss
    and its update are the paper's. Frequencies are independent and normal, with variance 2 gamma.

    The number of mistakes for two classes is at most that of `bounds.online_gradient_descent` with the
    approximate kernel, the inner product of the features: it compares with the losses of any function of its
    space, and is evaluated on the ledger of a run. With the hinge loss, a constant step and no decay it is
    (sum of hinge losses of g) + ||g||^2 / (2 eta) + eta / 2 * (number of updates). The paper's bound, which
    compares with functions of the "rbf" kernel and holds with high probability over the frequencies, is not
    implemented.

    A hinge loss of at most 1e-9 (1e-4 for float32 rows) counts as 0. For float32 rows the features are
    computed in float32, so that angles should be moderate: scale the features.

    References
    ----------
    Lu, Hoi, Wang, Zhao, Liu: Large Scale Online Kernel Learning (2016).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from budgetron import FOGD
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FOGD(n_components=200, gamma=0.001, random_state=0)
    >>> model.progressive_fit(X, y % 2)
    Trace(1797 rounds, 117 mistakes, error rate 0.0651)
    """

    _parameter_constraints: ClassVar[Constraints] = DESCENT | {
        "n_components": [Interval(Integral, 1, MOST_COMPONENTS, closed="both")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "random_state": ["random_state"],
    }
    _joint: ClassVar[bool] = True
    _learners: Sequence[FourierHypothesis]
    _learned_names: ClassVar[frozenset[str]] = OnlineClassifier._learned_names | {"gamma_"}

    def __init__(
        self,
        n_components: int = 100,
        eta: float = 0.2,
        decay: float = 0.0,
        loss: str = "hinge",
        *,
        schedule: str = "constant",
        gamma: float | str = "scale",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.eta = eta
        self.decay = decay
        self.loss = loss
        self.schedule = schedule
        self.gamma = gamma
        self.random_state = random_state

    def _new_rule(self, d: int, dtype: np.dtype[Any], outputs: int) -> FourierRule:
        """Return a new rule over d Fourier features."""
        check_decay(self.eta, self.decay)
        places = places_of(self.loss, self.schedule)
        return FourierRule(d, dtype == np.float32, *places, self.eta, self.decay, outputs)

    def _make(self, X: Matrix, outputs: int) -> list[FourierHypothesis]:
        self.gamma_ = resolve_gamma(self.gamma, X)
        (generator,) = self._generators(1)
        rule = self._new_rule(2 * self.n_components, X.dtype, outputs)
        return [FourierHypothesis(rule, self.gamma_, X.shape[1], generator)]

    def _restore(self, states: list[object], found: State, dtype: np.dtype[Any]) -> list[FourierHypothesis]:
        self.gamma_ = require_float(found["gamma_"], "gamma")
        require(self.gamma_ > 0.0, "gamma should be above 0")
        outputs = self._outputs_in(found)

        def make_rule(d: int) -> FourierRule:
            return self._new_rule(d, dtype, outputs)

        width = found["n_features_in_"]
        return [fourier_hypothesis(make_rule, states[0], width, self.n_components, self.gamma_)]

    def _bytes_needed(self, X: Matrix, outputs: int, prepare: Prepare = as_it_is) -> int:
        def make_rule(d: int) -> FourierRule:
            return self._new_rule(d, X.dtype, outputs)

        frequencies: int = X.shape[1] * self.n_components * X.dtype.itemsize
        return bytes_of_width(make_rule, 2 * self.n_components) + frequencies

    def _fitted(self) -> Sequence[FourierHypothesis]:
        super()._fitted()
        return self._learners

    def _theorems(self, radius: float) -> list[DeclaredTheorem]:
        return [descent_theorem(partial(steps_of, self.eta, self.schedule), self.decay, self.loss)]

    def _competitor_kernel(self) -> Kernel:
        return Kernel(FourierKernel(self._learners[0].frequencies))

    @property
    def frequencies_(self) -> NDArray[Any]:
        """The frequencies, of shape (n_features, n_components)."""
        frequencies: NDArray[Any] = self._fitted()[0].frequencies.copy()
        return frequencies

    @property
    def weights_(self) -> Floats:
        """Weights of shape (n_outputs, 2 n_components): those of the cosines, then those of the sines."""
        rule = self._fitted()[0].rule
        return np.atleast_2d(rule.factor * rule.weights)
