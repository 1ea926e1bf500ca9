"""One pass of learners over a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.base import clone

from budgetron._base.kernel_estimator import KernelEstimator
from budgetron._base.linear_classifier import LinearClassifier
from budgetron._evaluation.by_name import (
    Learner,
    Learners,
    WrongTaskError,
    only_numbers,
    scales_rows,
    set_class_weight,
)
from budgetron._evaluation.parallel import Jobs
from budgetron._evaluation.regressor import is_regressor
from budgetron.cli._interrupts import interrupts
from budgetron.cli._memory import give_needed_memory, refuse_large, without_large
from budgetron.cli._messages import err
from budgetron.cli._models import SavedModel
from budgetron.cli._prefix import Block, Prefix, Rows, open_stream
from budgetron.cli._sources import Source, print_reading
from budgetron.cli._tasks import AnyComparison, Task, task_of
from budgetron.conformal import ConformalClassifier, ConformalRegressor
from budgetron.streams import Advice, Stream, StreamError

if TYPE_CHECKING:
    from budgetron.certificates import Certificate
    from budgetron.cli._checkpoint import Checkpoint

__all__ = [
    "Certificates",
    "MakeLearners",
    "Pass",
    "PassOptions",
    "certificates_of",
    "check_certificate",
    "check_coverage",
    "check_learners",
    "learn",
    "learn_blocks",
]

# Returns the learners of a task by name
MakeLearners: TypeAlias = Callable[[Task], Learners]

# The certificate of each learner by name, or why there is none.
Certificates: TypeAlias = "dict[str, Certificate | str]"


@dataclass(frozen=True)
class Pass:
    """Learners that ran over a stream.

    Attributes
    ----------
    blocks : Prefix
    comparison : Comparison or RegressionComparison
    complete : bool
        False if the pass was interrupted.
    unscaled : frozenset of str
        The names of the learners that got rows before scaling, while the others got scaled rows.
    """

    blocks: Prefix
    comparison: AnyComparison
    complete: bool
    unscaled: frozenset[str]

    @property
    def task(self) -> Task:
        """What is predicted."""
        return task_of(self.blocks.stream.task)


@dataclass(frozen=True)
class PassOptions:
    """How learners run over a stream.

    Attributes
    ----------
    rows : int or None
        The largest number of rows; None for all.
    window, delay : int
        See `Comparison`.
    keep : bool
        Whether the rows are kept in memory, for certificates.
    checkpoint : Checkpoint or None
        Continue from there.
    save : callable or None
        Called with the result before an interrupt can end the command.
    skip_large : bool
        Whether learners that do not fit in memory are skipped with a message, instead of an error.
    saved : SavedModel or None
        A model that continues. It is the only learner, and its rows are read as those that it learned.
    class_weight : str or None
        The weights of classes, as typed.
    any_memory : bool
        Whether learners with a memory limit get more if their rows need it.
    n_jobs : int
        The number of processes among which the learners are divided.
    coverage : float or None
        The coverage of prediction sets or intervals; None for learners as they are.
    """

    rows: int | None
    window: int
    delay: int
    keep: bool
    checkpoint: Checkpoint | None = None
    save: Callable[[Pass], None] | None = None
    skip_large: bool = False
    saved: SavedModel | None = None
    class_weight: str | None = None
    any_memory: bool = False
    n_jobs: int = 1
    coverage: float | None = None


def learn(source: str, settings: Source, make: MakeLearners, options: PassOptions) -> Pass:
    """Run learners over a stream, which decides the task. `make` returns the learners of a task.

    A file is read once to find its classes. Linear learners are so fast that this would take as long as
    learning. So they start with the classes of the first rows, and start again if there are others.
    """
    quick = options.checkpoint is None and settings.classes is None and os.path.isfile(source)
    if quick and _only_linear(make, settings):
        try:
            return _learn_once(source, settings, make, options, scan=False)
        except StreamError as error:
            if error.advice is not Advice.LIST_CLASSES:
                raise
            err.print(f"{error.problem}; finding all classes and starting again (--classes avoids this)")
    return _learn_once(source, settings, make, options, scan=True)


def check_learners(make: MakeLearners, settings: Source) -> None:
    """Raise `ValueError` if the learners suit no task, before a long file is opened."""
    tasks = [settings.task] if settings.task is not None else ["classification", "regression"]
    errors = []
    for task in tasks:
        try:
            make(task_of(task))
            return
        except ValueError as error:
            errors.append(error)
    raise next((error for error in errors if not isinstance(error, WrongTaskError)), errors[0])


def _only_linear(make: MakeLearners, settings: Source) -> bool:
    """Return whether all learners are linear classifiers."""
    if settings.task == "regression":
        return False
    try:
        models = make(task_of("classification"))
    except ValueError:  # regressors
        return False
    return all(isinstance(model, LinearClassifier) for model in models.values())


def _learn_once(source: str, settings: Source, make: MakeLearners, options: PassOptions, scan: bool) -> Pass:
    """Run learners over a stream; with `scan`, its classes are found first."""
    rows, checkpoint, saved = options.rows, options.checkpoint, options.saved
    if saved is None:
        stream = open_stream(source, settings, rows, scan)
        models = make(task_of(stream.task))
        unscaled = _choose_scaling(stream, models, checkpoint)
    else:
        stream = _open_for(saved, source, settings, rows)
        models = make(task_of(saved.task))
        unscaled = frozenset()
    blocks = Prefix(
        stream,
        rows,
        settings.constant if saved is None else saved.constant,
        keep=options.keep,
        block_rows=None if checkpoint is None else checkpoint.every,
        with_unscaled=bool(unscaled),
    )
    clones = models if saved is not None else {name: clone(model) for name, model in models.items()}
    if saved is not None:
        blocks.target_scale = saved.target_scale
    else:
        task_of(stream.task).prepare(blocks, models, settings.scale)
    if options.class_weight is not None and blocks.classes is not None:
        set_class_weight(clones, options.class_weight, blocks.classes)
    if checkpoint is not None:
        clones = {name: checkpoint.model(model) for name, model in clones.items()}
    if options.any_memory:
        give_needed_memory(clones, blocks.first.X, blocks.n_classes)
    if options.coverage is not None:
        clones = {name: _conformal(model, options.coverage) for name, model in clones.items()}
    if options.skip_large:
        clones, reasons = without_large(clones, blocks.first.X, blocks.n_classes)
        for name, reason in reasons.items():
            err.print(f"Skipped {name}: {reason}")
    else:
        refuse_large(clones, blocks.first.X, blocks.n_classes)
    return learn_blocks(
        blocks,
        clones,
        blocks.name,
        options.window,
        options.delay,
        checkpoint,
        unscaled & clones.keys(),
        options.save,
        options.n_jobs,
    )


def _conformal(model: Learner, coverage: float) -> Learner:
    """Return a learner with prediction sets, or intervals; one from a checkpoint has them already."""
    if isinstance(model, ConformalClassifier | ConformalRegressor):
        return model
    wrapper = ConformalRegressor if is_regressor(model) else ConformalClassifier
    return wrapper(model, coverage)


def _open_for(saved: SavedModel, source: str, settings: Source, rows: int | None) -> Stream:
    """Open rows that a saved model learns."""
    stream = saved.open(
        source,
        target=settings.target,
        format=settings.format,
        header=settings.header,
        delimiter=settings.delimiter,
        learn=True,
        limit=rows,
    )
    if stream.n_features != saved.model.n_features_in_:
        raise ValueError(
            f"{stream.name}: rows of {stream.n_features:,} features; the model learned rows of "
            f"{saved.model.n_features_in_:,}"
        )
    return stream


def _choose_scaling(stream: Stream, models: Learners, checkpoint: Checkpoint | None) -> frozenset[str]:
    """Return which learners get unscaled rows while the others get scaled ones; set the stream's scaling.

    A learner that scales rows itself gets unscaled rows if all columns are numbers (see `only_numbers`).
    Earlier versions passed scaled rows to every learner; their checkpoints are continued in the same way.
    """
    own = frozenset(name for name, model in models.items() if scales_rows(model))
    encoder = stream.encoder
    if not own or encoder is None or not encoder.scale or (checkpoint is not None and checkpoint.scaled):
        return frozenset()
    if not only_numbers(encoder):
        return frozenset()
    if len(own) == len(models):
        encoder.scale = False
        return frozenset()
    return own


def learn_blocks(
    blocks: Prefix,
    models: Learners,
    title: str,
    window: int,
    delay: int,
    checkpoint: Checkpoint | None = None,
    unscaled: frozenset[str] = frozenset(),
    save: Callable[[Pass], None] | None = None,
    n_jobs: int = 1,
) -> Pass:
    """Learn block by block, with a progress line, until the end or an interrupt.

    With several jobs, blocks are learned in groups. After an interrupt, those that no job has got yet are
    left out.
    """
    task = task_of(blocks.stream.task)
    comparison = task.comparison(models, blocks, window, delay)
    if err.is_terminal:  # printed early: whoever sees a column read wrongly can stop at once
        print_reading(blocks.stream)
    remaining = iter(blocks)
    if checkpoint is not None:
        checkpoint.resume(comparison, blocks, remaining)
    waiting: list[Block] = []

    def record_learned() -> None:
        for block in waiting:
            blocks.learned(block)
            if checkpoint is not None:
                checkpoint.learned(block, comparison, blocks)
        waiting.clear()

    with interrupts.held():
        with (
            _progress(blocks, title, comparison, task) as show,
            _interruptible(),
            Jobs(comparison, n_jobs) as jobs,
        ):
            for block in interrupts.until_interrupted(remaining):
                waiting.append(block)
                if jobs.learn(block.X, block.y, dict.fromkeys(unscaled, block.unscaled)):
                    record_learned()
                    show()
            if not interrupts.pending:
                jobs.finish()
                record_learned()
                if checkpoint is not None:
                    checkpoint.save(comparison, blocks, done=True)
        if interrupts.pending and not comparison[0].rounds:
            raise KeyboardInterrupt
        done = Pass(blocks, comparison, not interrupts.take(), unscaled)
        if save is not None:
            save(done)
    return done


def _progress(
    blocks: Prefix, title: str, comparison: AnyComparison, task: Task
) -> AbstractContextManager[Callable[[], None]]:
    """On a terminal, show a line with the progress; the context has the function that updates it."""
    if not err.is_terminal:
        return nullcontext(lambda: None)
    from budgetron.cli._progress import progress  # takes long to import

    return progress(blocks, title, comparison, task.figures)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Report an interrupt as such if it also ended a process of joblib, which happens while these start."""
    try:
        yield
    except BrokenExecutor:
        if interrupts.pending:
            raise KeyboardInterrupt from None
        raise


def check_certificate(certified: bool, delay: int) -> None:
    """Raise `ValueError` if the theorems do not apply."""
    if certified and delay:
        raise ValueError("--certify: the theorems assume that labels are not delayed; leave out --delay")


def check_coverage(coverage: float | None, delay: int, average: bool = False) -> None:
    """Raise `ValueError` if there can be no prediction sets or intervals with this coverage."""
    if coverage is None:
        return
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"--coverage must be above 0 and below 1, such as 0.9; got {coverage:g}")
    if delay or average:
        raise ValueError(
            "--coverage: sets and intervals are predicted when a row is learned, by the learner itself; "
            f"leave out --{'delay' if delay else 'average'}"
        )


def certificates_of(done: Pass) -> Certificates:
    """Return the certificate of each learner on the rows that it learned, or why there is none."""
    from budgetron.certificates import certify  # takes long to import

    blocks = done.blocks.kept
    y = np.concatenate([block.y for block in blocks])
    certificates: Certificates = {}
    for result in done.comparison:
        model, fitted, prefix = clone(result.model), result.model, ""
        if isinstance(fitted, ConformalClassifier | ConformalRegressor):
            fitted, prefix = fitted.learner_, "learner__"
        if isinstance(fitted, KernelEstimator):  # the width of the first block, not of all rows
            model.set_params(**{f"{prefix}gamma": fitted.gamma_})
        X = _joined(blocks, unscaled=result.name in done.unscaled)
        try:
            trace, targets = done.task.traced(model, X, y, done.blocks)
            certificates[result.name] = certify(model, X, targets, trace)
        except (ValueError, TypeError) as error:
            certificates[result.name] = str(error)
    return certificates


def _joined(blocks: list[Block], unscaled: bool) -> Rows:
    rows = [block.unscaled if unscaled else block.X for block in blocks]
    return vstack(rows).tocsr() if issparse(rows[0]) else np.vstack(rows)
