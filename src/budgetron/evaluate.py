"""Progressive evaluation: predict, then learn, row by row, and keep account.

`progressive` runs one learner over a stream, `compare` several in one pass. Both take any
`budgetron.streams.Stream`, or a pair of arrays, and keep an account of fixed size however
long the stream is. Learners are Budgetron's, or any with `partial_fit` and `predict`.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from budgetron._batches import check_classes, encode
from budgetron._face import OnlineClassifier
from budgetron._kernel_face import KernelClassifier
from budgetron._threads import one_thread
from budgetron._together import Cohort

__all__ = ["Comparison", "Result", "compare", "progressive"]

Codes = NDArray[np.intp]

# Rows of a block of arrays: enough for speed, and for ``gamma="scale"`` to know the features by.
BLOCK = 4096

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


class Comparison:
    """Learners that run over one stream, block by block, and the account of each.

    Parameters
    ----------
    learners : mapping of names to learners, or sequence of learners
        They learn in place; `compare` gives it clones. Kernel learners with the same kernel share its values.
    classes : array-like
        All labels that will ever occur.
    window : int, default=1000
        Rounds that `window_error` looks back.
    delay : int, default=0
        The label of round t comes after the prediction of round t + delay, and is learned then.
    share : bool, default=True
        Whether learners with the same kernel compute its values once for all. The results are the same, to
        rounding: only a margin that is 0 but for rounding may fall on the other side.

    Attributes
    ----------
    results : list of Result
    """

    def __init__(
        self,
        learners: Mapping[str, Any] | Sequence[Any],
        classes: ArrayLike,
        *,
        window: int = 1000,
        delay: int = 0,
        share: bool = True,
    ) -> None:
        named = named_learners(learners)
        if not named:
            raise ValueError("learners must hold at least one learner")
        for name, value, least in (("window", window, 1), ("delay", delay, 0)):
            if int(value) != value or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value}")
        if len(set(map(id, named.values()))) < len(named):
            raise ValueError(
                "a learner stands there twice, and cannot learn the stream twice; give a clone of it"
            )
        for learner in named.values():
            if not (hasattr(learner, "partial_fit") and hasattr(learner, "predict")):
                raise TypeError(f"a learner must have partial_fit and predict; got {learner!r}")
        self.classes = check_classes(self, classes)
        self.delay = delay
        self.results = [Result(name, learner, self.classes, window) for name, learner in named.items()]
        cohort = [
            result
            for result in self.results
            if isinstance(result.model, KernelClassifier) and result.model._predicts_as_it_learns
        ]
        cohort = cohort if share and not delay and len(cohort) > 1 else []
        self._cohort = Cohort([result.model for result in cohort]) if cohort else None
        self._sharing = cohort
        self._waiting: dict[str, deque[tuple[Any, Any]]] = {name: deque() for name in named}

    def start(self, X: Any, y: ArrayLike) -> None:
        """Let a block be the first of every learner, though it will be learned in parts.

        What is fixed by the first block (``gamma="scale"``) is then that of the whole one.
        """
        for result in self.results:
            if isinstance(result.model, OnlineClassifier):
                result.model._open_batch(X, np.asarray(y), self.classes)

    def state(self) -> dict[str, Any]:
        """All but the models: the accounts, and what waits for its label, as `files.save` takes it."""
        waiting = {name: _packed(rows) for name, rows in self._waiting.items() if rows}
        return {"results": {result.name: result._state() for result in self.results}, "waiting": waiting}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from the `state` of another, whose models, as they were then, are the learners here."""
        for result in self.results:
            result._resume(state["results"][result.name])
        for name, packed in state["waiting"].items():
            self._waiting[name] = _unpacked(packed)

    def learn(self, X: Any, y: ArrayLike) -> None:
        """Play the rounds of a block with every learner: predict, then learn."""
        y = np.asarray(y)
        codes = encode(y, self.classes)
        if self._cohort is not None:
            before = self._cohort.seconds.copy()
            traces = self._cohort.progressive_fit(X, y, self.classes)
            spent = self._cohort.seconds - before
            for result, trace, seconds in zip(self._sharing, traces, spent, strict=True):
                result._take(codes, _predicted(trace, codes), trace.support_sizes, float(seconds))
        for result in self.results:
            if any(result is other for other in self._sharing):
                continue
            start = time.perf_counter()
            model = result.model
            if self.delay:
                predicted, supports = self._play_delayed(result, X, y)
            elif isinstance(model, OnlineClassifier) and model._predicts_as_it_learns:
                trace = model.progressive_fit(X, y, self.classes)
                predicted, supports = _predicted(trace, codes), trace.support_sizes
            else:
                predicted, supports = self._play_rows(model, X, y)
            result._take(codes, predicted, supports, time.perf_counter() - start)

    def finish(self) -> None:
        """Learn the labels that are still to come, if they are delayed."""
        for result in self.results:
            start = time.perf_counter()
            waiting = self._waiting[result.name]
            if waiting:
                with one_thread():
                    while waiting:
                        self._teach(result.model, *waiting.popleft())
                result.supports = _supports(result.model)
                result.seconds += time.perf_counter() - start

    def _play_rows(self, model: Any, X: Any, y: NDArray[Any]) -> tuple[Codes, NDArray[np.int64]]:
        """Ask before each row what `predict` says; before the first of all, the first class."""
        predicted, supports = np.zeros(len(y), np.intp), np.zeros(len(y), np.int64)
        if isinstance(model, OnlineClassifier):
            X = model._open_batch(X, y, self.classes).X  # started as by a batch: "scale" is that of a block
        for t in range(len(y)):
            row = X[t : t + 1]
            if hasattr(model, "classes_") and getattr(model, "rounds_", True):
                predicted[t] = encode(model.predict(row), self.classes)[0]
            model.partial_fit(row, y[t : t + 1], classes=self.classes)
            supports[t] = _supports(model)
        return predicted, supports

    def _play_delayed(self, result: Result, X: Any, y: NDArray[Any]) -> tuple[Codes, NDArray[np.int64]]:
        model, waiting = result.model, self._waiting[result.name]
        if isinstance(model, OnlineClassifier):
            X = model._open_batch(X, y, self.classes).X  # checked, and started as by a batch
        predicted, supports = np.zeros(len(y), np.intp), np.zeros(len(y), np.int64)
        codes = encode(y, self.classes)
        with one_thread():
            for t in range(len(y)):
                row = X[t : t + 1]
                if isinstance(model, OnlineClassifier):
                    unknown = np.zeros(len(model._learners))
                    margins = model._margins(row)[:, 0] if model.rounds_ else unknown
                    predicted[t] = _predicted_one(margins, codes[t])
                elif hasattr(model, "classes_"):
                    predicted[t] = encode(model.predict(row), self.classes)[0]
                waiting.append((row, y[t]))
                if len(waiting) > self.delay:
                    self._teach(model, *waiting.popleft())
                supports[t] = _supports(model)
        return predicted, supports

    def _teach(self, model: Any, row: Any, label: Any) -> None:
        if isinstance(model, OnlineClassifier):
            model.play(row, label.item() if isinstance(label, np.generic) else label)
        else:
            model.partial_fit(row, [label], classes=self.classes)

    # ------------------------------------------------------------------ what came out

    def __iter__(self) -> Any:
        return iter(self.results)

    def __getitem__(self, name: str | int) -> Result:
        if isinstance(name, int):
            return self.results[name]
        return next(result for result in self.results if result.name == name)

    def best(self) -> Result:
        """The result with the fewest mistakes."""
        return min(self.results, key=lambda result: result.mistakes)

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row a learner."""
        return _pandas().DataFrame([result.summary() for result in self.results]).set_index("learner")

    def curves(self) -> Any:
        """A pandas DataFrame with all points of all curves, one row a learner and round."""
        pandas = _pandas()
        frames = [pandas.DataFrame(result.curve).assign(learner=result.name) for result in self.results]
        return pandas.concat(frames, ignore_index=True)

    def to_json(self, **options: Any) -> str:
        """Everything but the models, as JSON."""
        return json.dumps({"results": [result.to_dict() for result in self.results]}, **options)

    def plot(self, path: Any = None) -> Any:
        """Error and supports against rounds; saved at `path` if given. Returns the matplotlib figure."""
        from budgetron._plots import comparison

        figure = comparison(self.results)
        if path is not None:
            figure.savefig(path, dpi=150)
        return figure

    def __repr__(self) -> str:
        best = self.best()
        learners = f"{len(self.results)} learners, {best.rounds} rounds"
        return f"Comparison({learners}, best {best.name} {best.error_rate:.4f})"


def progressive(
    learner: Any,
    stream: Any,
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    watch: Callable[[Comparison], object] | None = None,
) -> Result:
    """Run a learner over a stream: predict each row, then see its label and learn.

    Parameters
    ----------
    learner : classifier
        It learns in place, going on from where it is.
    stream : Stream, or pair of arrays (X, y)
    classes : array-like, optional
        All labels that will ever occur; by default what the stream says.
    window : int, default=1000
        Rounds that `window_error` looks back.
    delay : int, default=0
        The label of round t comes after the prediction of round t + delay, and is learned then. Labels
        that come after the last row are learned as well.
    watch : callable, optional
        Called after each block with the `Comparison` so far.

    Returns
    -------
    Result

    Examples
    --------
    >>> from budgetron import Forgetron
    >>> from budgetron.evaluate import progressive
    >>> from budgetron.streams import two_gaussians
    >>> result = progressive(Forgetron(gamma=1.0), two_gaussians(5000, random_state=0))
    >>> result.rounds, result.supports, round(result.error_rate, 2)
    (5000, 100, 0.22)
    """
    name = type(learner).__name__
    return _run({name: learner}, stream, classes, window, delay, False, watch).results[0]


def compare(
    learners: Mapping[str, Any] | Sequence[Any],
    stream: Any,
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Callable[[Comparison], object] | None = None,
) -> Comparison:
    """Run several learners over a stream in one pass.

    Parameters
    ----------
    learners : mapping of names to learners, or sequence of learners
        Clones of them learn; the results hold those.
    stream : Stream, or pair of arrays (X, y)
    classes, window, delay, watch
        As in `progressive`.
    share : bool, default=True
        Whether kernel learners with the same kernel compute its values once for all. The
        results are the same, to rounding: only a margin that is 0 but for rounding may fall on the
        other side.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> from budgetron import Forgetron, RandomizedBudgetPerceptron
    >>> from budgetron.evaluate import compare
    >>> from budgetron.streams import two_gaussians
    >>> learners = [Forgetron(budget, gamma=1.0) for budget in (50, 500)]
    >>> results = compare(learners, two_gaussians(5000, random_state=0))
    >>> [(result.name, result.supports) for result in results]
    [('Forgetron(budget=50)', 50), ('Forgetron(budget=500)', 500)]
    """
    named = named_learners(learners)
    clones = {name: clone(learner) for name, learner in named.items()}
    return _run(clones, stream, classes, window, delay, share, watch)


def _run(
    learners: Mapping[str, Any],
    stream: Any,
    classes: ArrayLike | None,
    window: int,
    delay: int,
    share: bool,
    watch: Callable[[Comparison], object] | None,
) -> Comparison:
    blocks: Iterable[tuple[Any, Any]]
    if isinstance(stream, tuple | list):
        rows, labels = stream
        rows, labels = rows if hasattr(rows, "shape") else np.asarray(rows), np.asarray(labels)
        check_consistent_length(rows, labels)
        starts = range(0, len(labels), BLOCK)
        blocks = ((rows[start : start + BLOCK], labels[start : start + BLOCK]) for start in starts)
        classes = labels if classes is None else classes
    else:
        blocks = stream
        classes = stream.classes if classes is None else classes
    comparison = Comparison(learners, classes, window=window, delay=delay, share=share)
    for X, y in blocks:
        comparison.learn(X, y)
        if watch is not None:
            watch(comparison)
    comparison.finish()
    return comparison


def _predicted(trace: Any, codes: Codes) -> Codes:
    """The class predicted in each round: never the true one where there was a mistake."""
    if trace.margins.ndim == 1:
        return np.where(trace.mistakes, 1 - codes, codes)
    others = trace.margins.copy()
    np.put_along_axis(others, codes[:, None], -np.inf, axis=1)
    return np.where(trace.mistakes, others.argmax(axis=1), codes)


def _predicted_one(margins: NDArray[np.float64], code: int) -> int:
    if len(margins) == 1:
        return code if (margins[0] if code else -margins[0]) > 0.0 else 1 - code
    others = margins.copy()
    others[code] = -np.inf
    best = int(others.argmax())
    return code if margins[code] > margins[best] else best


def _packed(waiting: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Rows and labels as arrays."""
    rows, labels = zip(*waiting, strict=True)
    if not issparse(rows[0]):
        return {"rows": np.vstack(rows), "labels": np.array(labels)}
    joined = vstack(rows, format="csr")
    parts = {name: getattr(joined, name) for name in ("data", "indices", "indptr")}
    return {"rows": parts | {"features": joined.shape[1]}, "labels": np.array(labels)}


def _unpacked(packed: dict[str, Any]) -> deque[tuple[Any, Any]]:
    rows, labels = packed["rows"], packed["labels"]
    if isinstance(rows, dict):
        parts = (rows["data"], rows["indices"], rows["indptr"])
        rows = csr_matrix(parts, shape=(len(labels), rows["features"]))
    return deque((rows[t : t + 1], labels[t]) for t in range(len(labels)))


def _supports(model: Any) -> int:
    learners = getattr(model, "_learners", ())
    own: int = sum(learner.supports.m for learner in learners if hasattr(learner, "supports"))
    experts: int = sum(learner.n_supports for learner in learners if hasattr(learner, "n_supports"))
    return own + experts


def _name(learners: Sequence[Any]) -> list[str]:
    """A name for each: its class, and the parameters in which those of one class differ."""
    names: list[str] = []
    for learner in learners:
        params = learner.get_params(deep=False)
        alike = [other.get_params(deep=False) for other in learners if type(other) is type(learner)]
        differing = [
            name for name in params if any(repr(other[name]) != repr(params[name]) for other in alike)
        ]
        shown = ", ".join(f"{name}={params[name]!r}" for name in differing)
        # A linear learner may have the name of a kernel learner.
        home = "linear." if type(learner).__module__.startswith("budgetron.linear") else ""
        names.append(home + type(learner).__name__ + (f"({shown})" if shown else ""))
    return [
        f"{name} #{names[:i].count(name) + 1}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


def named_learners(learners: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Learners by name; those that have none are called by what tells them apart."""
    for learner in learners.values() if isinstance(learners, Mapping) else learners:
        if isinstance(learner, type):
            raise TypeError(f"a learner must be an instance, like {learner.__name__}(); got the class itself")
    if isinstance(learners, Mapping):
        return dict(learners)
    return dict(zip(_name(learners), learners, strict=True))


def _pandas() -> Any:
    with suppress(ImportError):
        import pandas

        return pandas
    raise ImportError("data frames need pandas: pip install pandas")
