"""What the results of classifiers and regressors on a stream have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from budgetron._evaluation.classifier import n_supports
from budgetron._util.types import Ints

__all__ = ["Curve", "HasParameters", "RunResult"]

Curve = dict[str, NDArray[np.int64] | NDArray[np.float64]]


class HasParameters(Protocol):
    """An estimator, whatever it predicts."""

    def get_params(self, deep: bool = ...) -> dict[str, object]: ...


class RunResult:
    """How a learner did on a stream. A subclass is a dataclass with these attributes, and records rounds.

    Attributes
    ----------
    name : str
    model : estimator
        The learner after the last round.
    window : int
    points : int
        The curve has from this number of points to twice as many.
    supports : int
        Number of supports at the end.
    seconds : float
        Time spent on predicting and learning.
    curve : dict of str to ndarray
        Values at evenly spaced rounds.
    """

    name: str
    model: HasParameters
    window: int
    points: int
    supports: int
    seconds: float
    curve: Curve
    _step: int

    if TYPE_CHECKING:

        @property
        def rounds(self) -> int:
            """Number of rounds."""

        @property
        def loss(self) -> float:
            """What the learner should keep small: the number of mistakes, or the sum of squared errors."""

    @property
    def nbytes(self) -> int:
        """Size of the model at the end in bytes; 0 if the model has no `nbytes_`."""
        # A foreign estimator need not have it.
        return int(getattr(self.model, "nbytes_", 0)) if self.rounds else 0

    @property
    def rounds_per_second(self) -> float:
        """Rounds divided by `seconds`."""
        return self.rounds / self.seconds if self.seconds else 0.0

    def parameters(self) -> dict[str, object]:
        """Return the learner's parameters, and ``gamma_``, the kernel width in use, if it has a kernel."""
        own = self.model.get_params(deep=False)
        width = getattr(self.model, "gamma_", None)
        if width is not None:
            own = own | {"gamma_": width}
        plain = (bool, int, float, str, type(None))
        return {name: value if isinstance(value, plain) else repr(value) for name, value in own.items()}

    def record_rest(self, seconds: float) -> None:
        """Add the time and supports of rows that were learned after their predictions were recorded."""
        self.supports = n_supports(self.model)
        self.seconds += seconds

    def _new_points(self, before: int, block: int) -> Ints:
        """Return the rounds of a block, counted from 0, at which the curve gets points."""
        first = -before % self._step or self._step
        return np.arange(first, block + 1, self._step) - 1 if first <= block else np.zeros(0, np.int64)

    def _extend(self, new: Curve) -> None:
        """Add points to the curve."""
        self.curve = {name: np.concatenate([old, new[name]]) for name, old in self.curve.items()}
        while len(self.curve["round"]) > 2 * self.points:  # keep every second point from now on
            self._step *= 2
            kept = self.curve["round"] % self._step == 0
            self.curve = {name: values[kept] for name, values in self.curve.items()}
