"""The results of one learner on one stream, in fixed memory however long the stream is."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codes", "Result"]

Codes = NDArray[np.intp]

# What a summary tells of a run
FIGURES = (
    "rounds",
    "mistakes",
    "error_rate",
    "window_error",
    "balanced_accuracy",
    "supports",
    "nbytes",
    "seconds",
    "rounds_per_second",
)


@dataclass(repr=False)
class Result:
    """How a learner did on a stream.

    Attributes
    ----------
    name : str
    model : classifier
        The learner as it is after the stream.
    classes : ndarray of shape (n_classes,)
    confusion : ndarray of shape (n_classes, n_classes)
        Rounds by true class (row) and predicted class (column). A mistake never stands on the
        diagonal: a margin of 0, which counts as a mistake, is put down to the other class.
    window : int
    supports : int
        Supports stored at the end, over all classes.
    seconds : float
        Time spent learning. In a comparison in which learners share kernel values, an
        estimate of what this one would take alone.
    curve : dict of str to ndarray
        The account at some hundred to thousand rounds, evenly spaced: ``round``, and after it
        ``mistakes``, ``window_error`` (error rate of the last `window` rounds), ``supports`` and
        ``nbytes``, the last as of the end of the block of rows.
    """

    name: str
    model: Any
    classes: NDArray[Any]
    window: int
    points: int = 500
    confusion: NDArray[np.int64] = field(init=False)
    supports: int = 0
    seconds: float = 0.0
    curve: dict[str, NDArray[Any]] = field(init=False)
    _step: int = 1
    _recent: NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.confusion = np.zeros((len(self.classes), len(self.classes)), np.int64)
        self.curve = {
            "round": np.zeros(0, np.int64),
            "mistakes": np.zeros(0, np.int64),
            "window_error": np.zeros(0),
            "supports": np.zeros(0, np.int64),
            "nbytes": np.zeros(0, np.int64),
        }
        self._recent = np.zeros(0, np.bool_)

    # ------------------------------------------------------------------ what came out

    @property
    def rounds(self) -> int:
        """Rounds evaluated."""
        return int(self.confusion.sum())

    @property
    def mistakes(self) -> int:
        """Rounds that were mistakes."""
        return self.rounds - int(np.trace(self.confusion))

    @property
    def error_rate(self) -> float:
        """Mistakes divided by rounds."""
        return self.mistakes / max(1, self.rounds)

    @property
    def window_error(self) -> float:
        """Error rate of the last `window` rounds."""
        return float(self._recent.mean()) if len(self._recent) else 0.0

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the classes that came of the share of their rounds that was right."""
        rounds = self.confusion.sum(axis=1)
        return (
            float(np.mean(np.diag(self.confusion)[rounds > 0] / rounds[rounds > 0])) if rounds.any() else 0.0
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the model at the end; 0 if it does not tell."""
        return int(getattr(self.model, "nbytes_", 0)) if self.rounds else 0

    @property
    def rounds_per_second(self) -> float:
        """Rounds divided by `seconds`."""
        return self.rounds / self.seconds if self.seconds else 0.0

    def summary(self) -> dict[str, Any]:
        """The figures of the whole run by name, as plain numbers."""
        return {"learner": self.name} | {name: getattr(self, name) for name in FIGURES}

    def parameters(self) -> dict[str, Any]:
        """The learner's parameters, and ``gamma_``, the width that it came to, if it has a kernel."""
        own = self.model.get_params(deep=False) | {
            name: getattr(self.model, name) for name in ("gamma_",) if hasattr(self.model, name)
        }
        plain = (bool, int, float, str, type(None))
        return {name: value if isinstance(value, plain) else repr(value) for name, value in own.items()}

    def __repr__(self) -> str:
        error = f"error rate {self.error_rate:.4f}"
        return f"Result({self.name}, {self.rounds} rounds, {error}, {self.supports} supports)"

    def to_dict(self) -> dict[str, Any]:
        """Everything but the model, as plain numbers and lists."""
        return self.summary() | {
            "parameters": self.parameters(),
            "window": self.window,
            "classes": self.classes.tolist(),
            "confusion": self.confusion.tolist(),
            "curve": {name: values.tolist() for name, values in self.curve.items()},
        }

    # ------------------------------------------------------------------ keeping account

    _kept = ("confusion", "supports", "seconds", "curve", "_step", "_recent")

    def _state(self) -> dict[str, Any]:
        return {name: deepcopy(getattr(self, name)) for name in self._kept}

    def _resume(self, state: dict[str, Any]) -> None:
        if state["confusion"].shape != self.confusion.shape or set(state["curve"]) != set(self.curve):
            raise ValueError("an account of other classes or curves")
        for name in self._kept:
            setattr(self, name, state[name])

    def _take(self, codes: Codes, predicted: Codes, supports: NDArray[np.int64], seconds: float) -> None:
        """Enter the rounds of a block."""
        before, mistakes = self.rounds, predicted != codes
        np.add.at(self.confusion, (codes, predicted), 1)
        self.seconds += seconds
        self.supports = int(supports[-1]) if len(supports) else self.supports
        recent = np.concatenate([self._recent, mistakes])
        counts = np.concatenate([[0], np.cumsum(recent)])
        self._recent = recent[-self.window :]

        first = -before % self._step or self._step
        places = (
            np.arange(first, len(codes) + 1, self._step) - 1 if first <= len(codes) else np.zeros(0, np.intp)
        )
        ends = places + 1 + len(recent) - len(codes)
        starts = np.maximum(ends - self.window, 0)
        total = self.mistakes - int(mistakes.sum())
        new = {
            "round": before + places + 1,
            "mistakes": total + np.cumsum(mistakes)[places],
            "window_error": (counts[ends] - counts[starts]) / (ends - starts),
            "supports": supports[places],
            "nbytes": np.full(len(places), self.nbytes),
        }
        self.curve = {name: np.concatenate([old, new[name]]) for name, old in self.curve.items()}
        while len(self.curve["round"]) > 2 * self.points:  # every second point will do from now on
            self._step *= 2
            kept = self.curve["round"] % self._step == 0
            self.curve = {name: values[kept] for name, values in self.curve.items()}
