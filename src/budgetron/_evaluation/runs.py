"""Run one learner, or several, over a whole stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from budgetron._base.batches import label_array
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._evaluation.classifier import Estimator
from budgetron._evaluation.comparison import Comparison
from budgetron._evaluation.names import Learners, named_learners
from budgetron._evaluation.parallel import Jobs
from budgetron._evaluation.progress import Progress
from budgetron._evaluation.regression_comparison import RegressionComparison
from budgetron._evaluation.regression_result import RegressionResult
from budgetron._evaluation.regressor import is_regressor
from budgetron._evaluation.result import Result
from budgetron._util.blocks import row_blocks
from budgetron._util.types import Labels, Rows

__all__ = ["compare", "progressive", "tune"]

# Rows per block of a pair of arrays. The first block determines gamma="scale".
BLOCK = 4096


class LabelledBlocks(Protocol):
    """A stream of blocks, such as `budgetron.streams.Stream`."""

    @property
    def classes(self) -> Labels | None: ...
    def __iter__(self) -> Iterator[tuple[Rows, Labels]]: ...


AnyComparison = Comparison | RegressionComparison
C = TypeVar("C", bound=AnyComparison)
Watch = Callable[[Any], object]
Regressors = Mapping[str, OnlineRegressor] | Sequence[OnlineRegressor]
Source = LabelledBlocks | tuple[Rows, ArrayLike] | list[Rows]


@overload
def progressive(
    learner: Estimator,
    stream: Source,
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    watch: Watch | None = None,
    verbose: bool = False,
) -> Result: ...


@overload
def progressive(
    learner: OnlineRegressor,
    stream: Source,
    *,
    classes: None = None,
    window: int = 1000,
    delay: int = 0,
    watch: Watch | None = None,
    verbose: bool = False,
) -> RegressionResult: ...


def progressive(
    learner: Any,
    stream: Source,
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    watch: Watch | None = None,
    verbose: bool = False,
) -> Result | RegressionResult:
    """Run a learner over a stream: predict each row, then see its label and learn.

    Parameters
    ----------
    learner : classifier or regressor
        It learns in place, starting from its current state.
    stream : Stream, or pair of arrays (X, y)
    classes : array-like, optional
        All labels that will ever occur; by default the classes of the stream, or the labels in `y`.
    window : int, default=1000
        Number of recent rounds in `window_error`.
    delay : int, default=0
        The label of round t arrives after the prediction of round t + delay, and is learned then. Labels
        that arrive after the last row are learned as well.
    watch : callable, optional
        Called after each block with the `Comparison`, or `RegressionComparison`, so far.
    verbose : bool, default=False
        Whether to print on stderr, about once a second, how many rounds were played, and the errors so far.

    Returns
    -------
    Result, or RegressionResult of a regressor

    Examples
    --------
    >>> from budgetron import Forgetron
    >>> from budgetron.evaluate import progressive
    >>> from budgetron.streams import two_gaussians
    >>> result = progressive(Forgetron(gamma=1.0), two_gaussians(5000, random_state=0))
    >>> result.rounds, result.supports, round(result.error_rate, 2)
    (5000, 100, 0.22)
    """
    named = {type(learner).__name__: learner}
    blocks, comparison = _start(named, stream, classes, window=window, delay=delay, share=False)
    return _run(comparison, blocks, watch, _progress(stream) if verbose else None, 1).results[0]


@overload
def compare(
    learners: Learners,
    stream: Source,
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Watch | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> Comparison: ...


@overload
def compare(
    learners: Regressors,
    stream: Source,
    *,
    classes: None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Watch | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> RegressionComparison: ...


def compare(
    learners: Any,
    stream: Source,
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Watch | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> AnyComparison:
    """Run several learners over a stream in one pass.

    Parameters
    ----------
    learners : mapping of names to learners, or sequence of learners
        Classifiers or regressors. Clones of them learn. The results hold the clones.
    stream : Stream, or pair of arrays (X, y)
    classes, window, delay, watch, verbose
        As in `progressive`.
    share : bool, default=True
        Whether kernel learners with the same kernel compute its values once for all. Up to rounding, the
        results are the same: only the sign of a margin that is 0 up to rounding may differ.
    n_jobs : int, default=None
        Jobs of joblib among which the learners are divided: processes, threads or machines, as
        `joblib.parallel_config` says. None is 1 unless such a context is active, and -1 is all cores. The
        stream is read once, in this process. Learners with the same kernel stay in one job if there are
        enough others. With more than one job, `watch` is called about every 65,000 rows.

    Returns
    -------
    Comparison, or RegressionComparison of regressors

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
    clones = {name: clone(learner) for name, learner in named_learners(learners).items()}
    blocks, comparison = _start(clones, stream, classes, window=window, delay=delay, share=share)
    return _run(comparison, blocks, watch, _progress(stream) if verbose else None, n_jobs)


@overload
def tune(
    learner: Estimator,
    stream: Source,
    grid: Mapping[str, Sequence[Any]],
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Watch | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> Comparison: ...


@overload
def tune(
    learner: OnlineRegressor,
    stream: Source,
    grid: Mapping[str, Sequence[Any]],
    *,
    classes: None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Watch | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> RegressionComparison: ...


def tune(
    learner: Any,
    stream: Source,
    grid: Mapping[str, Sequence[Any]],
    *,
    classes: ArrayLike | None = None,
    window: int = 1000,
    delay: int = 0,
    share: bool = True,
    watch: Watch | None = None,
    verbose: bool = False,
    n_jobs: int | None = None,
) -> AnyComparison:
    """Run a learner with every combination of parameters over a stream, in one pass.

    Parameters
    ----------
    learner : classifier or regressor
        Clones of it learn.
    stream : Stream, or pair of arrays (X, y)
    grid : mapping of parameter names to sequences of values
    classes, window, delay, share, watch, verbose, n_jobs
        As in `compare`.

    Returns
    -------
    Comparison, or RegressionComparison of a regressor
        One result per combination, named like ``"budget=50, gamma=0.1"``. Its `best()` has the fewest
        mistakes, or the smallest RMSE.

    Examples
    --------
    >>> from budgetron import Forgetron
    >>> from budgetron.evaluate import tune
    >>> from budgetron.streams import two_gaussians
    >>> grid = {"budget": [20, 200], "gamma": [0.01, 1.0]}
    >>> tune(Forgetron(), two_gaussians(5000, random_state=0), grid).best().name
    'budget=200, gamma=1.0'
    """
    if not grid:
        raise ValueError("grid must have at least one parameter, with the values to try")
    # Not by ParameterGrid, which sorts the parameters by name.
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if not combinations:
        raise ValueError("grid must have at least one value for each parameter")
    learners = {
        ", ".join(f"{name}={value!r}" for name, value in chosen.items()): clone(learner).set_params(**chosen)
        for chosen in combinations
    }
    return compare(
        learners,
        stream,
        classes=classes,
        window=window,
        delay=delay,
        share=share,
        watch=watch,
        verbose=verbose,
        n_jobs=n_jobs,
    )


def _start(
    named: dict[str, Any],
    stream: Source,
    classes: ArrayLike | None,
    *,
    window: int,
    delay: int,
    share: bool,
) -> tuple[Iterable[tuple[Rows, Labels]], AnyComparison]:
    """Return the blocks of a stream, and a comparison of the learners before its first round."""
    names = getattr(stream, "feature_names", None)  # arrays have none, nor need other streams
    if any(map(is_regressor, named.values())):
        if classes is not None:
            raise ValueError("classes are for classifiers; leave them out")
        if getattr(stream, "task", "regression") != "regression":  # other streams need not have it
            raise ValueError('the stream has classes, not numbers; open it with task="regression"')
        comparison = RegressionComparison(named, window=window, delay=delay, feature_names=names)
        return _blocks(stream)[0], comparison
    blocks, labels = _blocks(stream)
    classes = labels if classes is None else classes
    if classes is None:
        raise ValueError("the stream has no labels; evaluation needs the label of every row")
    return blocks, Comparison(named, classes, window=window, delay=delay, share=share, feature_names=names)


def _blocks(stream: Source) -> tuple[Iterable[tuple[Rows, Labels]], ArrayLike | None]:
    """Return the blocks of a stream or of a pair of arrays, and the classes or all labels."""
    if not isinstance(stream, tuple | list):
        return stream, stream.classes
    X, y = stream
    X, labels = X if hasattr(X, "shape") else np.asarray(X), np.asarray(label_array(y))
    check_consistent_length(X, labels)
    return ((X[rows], labels[rows]) for rows in row_blocks(len(labels), BLOCK)), labels


def _progress(stream: Source) -> Progress:
    if isinstance(stream, tuple | list):
        return Progress(np.shape(label_array(stream[1]))[0])
    return Progress(getattr(stream, "n_rows", None))


def _run(
    comparison: C,
    blocks: Iterable[tuple[Rows, Labels]],
    watch: Watch | None,
    progress: Progress | None,
    n_jobs: int | None,
) -> C:
    """Learn all blocks, and show the results so far."""

    def show() -> None:
        if progress is not None:
            progress.show(comparison.results)
        if watch is not None:
            watch(comparison)

    with Jobs(comparison, n_jobs) as jobs:
        learned = True
        for X, y in blocks:
            learned = jobs.learn(X, y)
            if learned:
                show()
        jobs.finish()
    if not learned:
        show()
    if progress is not None:
        progress.show(comparison.results, last=True)
    return comparison
