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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse, vstack
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from budgetron._base.batches import check_classes, encode
from budgetron._base.kernel_classifier import KernelClassifier
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._evaluation.cohort import Cohort
from budgetron._evaluation.plots import comparison as comparison_plot
from budgetron._evaluation.result import Codes, Result
from budgetron._util.threads import one_thread

__all__ = ["Comparison", "Result", "compare", "progressive"]

# Rows of a block of arrays: enough for speed, and for ``gamma="scale"`` to know the features by.
BLOCK = 4096


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
                        self._learn_row(result.model, *waiting.popleft())
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
                    self._learn_row(model, *waiting.popleft())
                supports[t] = _supports(model)
        return predicted, supports

    def _learn_row(self, model: Any, row: Any, label: Any) -> None:
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
        figure = comparison_plot(self.results)
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
