"""The commands that learn: run, compare, tune."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from budgetron._evaluation.by_name import (
    DEFAULTS,
    Learners,
    choose_learner,
    has_class_weight,
    learners_of,
    parsed_class_weight,
    set_class_weight,
    with_memory,
)
from budgetron._evaluation.names import named_learners
from budgetron._util.units import format_bytes
from budgetron.batch import AveragedClassifier
from budgetron.cli import _options as opt
from budgetron.cli._advice import MODEL_ADVICE
from budgetron.cli._memory import refuse_large
from budgetron.cli._messages import err, friendly, out
from budgetron.cli._models import load_model, refuse_with_from
from budgetron.cli._output import exit_if_interrupted, grid, present, suggest, suggest_tuning
from budgetron.cli._pass import (
    Certificates,
    Pass,
    PassOptions,
    certificates_of,
    check_certificate,
    check_coverage,
    check_learners,
    learn,
    learn_blocks,
)
from budgetron.cli._prefix import Prefix, State, open_stream
from budgetron.cli._sources import Source, takes_rows
from budgetron.cli._tasks import Task, task_of
from budgetron.cli._terminal import check_output
from budgetron.kernels import resolve_gamma

if TYPE_CHECKING:
    from budgetron.cli._checkpoint import Checkpoint

__all__ = ["compare", "run", "tune"]

DEFAULT_BUDGET = 200


@takes_rows
def run(
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    settings: Source,
    learner: opt.RunLearner = None,
    continued: opt.From = None,
    memory: opt.Memory = None,
    budget: opt.RunBudget = None,
    gamma: opt.RunGamma = None,
    class_weight: opt.ClassWeight = None,
    rows: opt.Rows = None,
    window: opt.Window = 1000,
    delay: opt.Delay = 0,
    seed: opt.Seed = 0,
    average: opt.Average = False,
    coverage: opt.Coverage = None,
    save: opt.Save = None,
    checkpoint_to: opt.Checkpoint = None,
    every: opt.Every = None,
    report_to: opt.Report = None,
    certified: opt.Certify = False,
    as_json: opt.Json = False,
) -> None:
    """Learn a stream with one learner: predict each row, then see its label and learn.

    budgetron run data.csv --target label --save model.budgetron
    """
    with friendly(None if continued is None else MODEL_ADVICE):
        check_output(save, [source])
        check_output(report_to, [source])
        check_certificate(certified, delay)
        check_coverage(coverage, delay, average)
        saved = None

        def make(task: Task) -> Learners:
            if saved is not None:
                return named_learners([saved.model])
            task.check_options(class_weight, average)
            kernel_options = budget is not None or gamma is not None or average
            name = choose_learner(learner, memory, kernel_options, task.name)
            (model,) = learners_of([name], [budget or DEFAULT_BUDGET], [gamma or "scale"], seed, task.name)
            return named_learners([AveragedClassifier(model) if average else model])

        if continued is None:
            check_learners(make, settings)
        else:
            given: dict[str, object] = {
                "learner": learner,
                "memory": memory,
                "budget": budget,
                "gamma": gamma,
            }
            given |= {"class-weight": class_weight, "average": average or None}
            given |= {"checkpoint": checkpoint_to, "certify": certified or None, "coverage": coverage}
            refuse_with_from(given, settings)
            saved = load_model(continued)
        # What decides the result, in the names of the options; a checkpoint stores it.
        command: State = {"learner": learner, "memory": memory, "budget": budget, "gamma": gamma}
        command |= {"average": average, "seed": seed, "class_weight": class_weight, "coverage": coverage}
        command |= {"rows": rows, "window": window, "delay": delay} | vars(settings)

        def write_model(done: Pass) -> None:
            if save is not None:
                from budgetron import files  # takes long to import

                files.save(done.comparison[0].model, save, extras=done.blocks.extras())

        with _checkpoint_in(checkpoint_to, every, source, command) as checkpoint:
            options = PassOptions(
                rows,
                window,
                delay,
                keep=certified,
                checkpoint=checkpoint,
                save=write_model,
                saved=saved,
                class_weight=class_weight,
                any_memory=memory is None and "memory=" not in (learner or ""),
                coverage=coverage,
            )
            done = learn(source, settings, make, options)
        title = done.blocks.name
        certificates = {title: certificates_of(done)} if certified else {}
        present({title: done}, certificates, report_to, as_json)
        if save is not None and not as_json:
            err.print(f"Saved: {save} ({format_bytes(save.stat().st_size)})")
    exit_if_interrupted(done.complete, done.comparison)


def _checkpoint_in(
    folder: Path | None, every: int | None, source: str, command: State
) -> AbstractContextManager[Checkpoint | None]:
    """Return a context with the checkpoint in a folder; None if no folder is given."""
    if folder is None:
        if every is not None:
            raise ValueError(
                "--every is the number of rows between checkpoints; give --checkpoint FOLDER too"
            )
        return nullcontext()
    from budgetron.cli._checkpoint import checkpoint_in  # takes long to import

    return checkpoint_in(folder, every, source, command)


@takes_rows
def compare(
    source: Annotated[
        list[str], typer.Argument(help=opt.SOURCE + " Several sources are compared one after the other.")
    ],
    settings: Source,
    learner: opt.CompareLearners = None,
    budget: opt.CompareBudgets = None,
    gamma: opt.CompareGammas = None,
    memory: opt.Memory = None,
    class_weight: opt.ClassWeight = None,
    rows: opt.Rows = None,
    window: opt.Window = 1000,
    delay: opt.Delay = 0,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    coverage: opt.Coverage = None,
    report_to: opt.Report = None,
    certified: opt.Certify = False,
    as_json: opt.Json = False,
) -> None:
    """Compare learners, budgets or widths in one pass over a stream.

    budgetron compare data.csv --target label --report comparison.html
    """
    with friendly():
        check_output(report_to, source)
        if source.count("-") > 1:
            raise ValueError("standard input (-) can be read only once; give it once")
        check_certificate(certified, delay)
        check_coverage(coverage, delay)

        def make(task: Task) -> Learners:
            task.check_options(class_weight)
            specs = [with_memory(name, memory) for name in learner or task.defaults]
            made = learners_of(specs, budget or [DEFAULT_BUDGET], gamma or ["scale"], seed, task.name)
            models = named_learners(made)
            return models if class_weight is None or learner is not None else _with_class_weight(models)

        check_learners(make, settings)
        if class_weight is not None and learner is None:
            _print_unweighted(named_learners(learners_of(DEFAULTS, [DEFAULT_BUDGET], ["scale"], seed)))
        passes: dict[str, Pass] = {}
        certificates: dict[str, Certificates] = {}
        options = PassOptions(
            rows,
            window,
            delay,
            keep=certified,
            skip_large=True,
            class_weight=class_weight,
            any_memory=memory is None and not any("memory=" in spec for spec in learner or ()),
            n_jobs=jobs,
            coverage=coverage,
        )
        for name in source:
            done = learn(name, settings, make, options)
            title = done.blocks.name
            if title in passes:
                title = f"{title} ({len(passes) + 1})"
            passes[title] = done
            if certified:
                certificates[title] = certificates_of(done)
            if not done.complete:
                break
        present(passes, certificates, report_to, as_json)
        if not as_json and done.complete and len(source) == 1 and len(done.comparison.results) > 1:
            weights = [] if class_weight is None else ["--class-weight", class_weight]
            suggest_tuning(done.comparison.best(), source[0], [*settings.typed(), *weights])
    exit_if_interrupted(done.complete, done.comparison)


def _with_class_weight(models: Learners) -> Learners:
    """Return the learners that have class weights."""
    return {name: model for name, model in models.items() if has_class_weight(model)}


def _print_unweighted(models: Learners) -> None:
    """Print which learners have no class weights."""
    kept = _with_class_weight(models)
    others = ", ".join(name for name in models if name not in kept)
    err.print(f"not compared, because they have no class weights: {others}")


@takes_rows
def tune(
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    settings: Source,
    learner: opt.TuneLearner = None,
    budget: opt.TuneBudgets = None,
    gamma: opt.TuneGammas = None,
    class_weight: opt.ClassWeight = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of rows to learn.")] = 10_000,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    as_json: opt.Json = False,
) -> None:
    """Find a width and a budget by one pass over the first rows of a stream.

    Suggests the smallest budget whose error is at most 1.05 times the least error that was found, and the
    best width for it. With --class-weight, mistakes are weighted, too.

    budgetron tune data.csv --target label
    """
    with friendly():
        blocks = Prefix(open_stream(source, settings, rows), rows, settings.constant)
        task = task_of(blocks.stream.task)
        task.check_options(class_weight)
        learner = learner or task.kernel_learner
        budgets = sorted(set(budget or [50, 100, 200, 500, 1000]))
        middle = resolve_gamma("scale", blocks.first.X)
        widths = sorted(set(gamma or [float(f"{middle * 4.0**power:.4g}") for power in range(-3, 4)]))
        models = {
            (b, g): learners_of([learner], [b], [repr(g)], seed, task.name)[0]
            for b in budgets
            for g in widths
        }
        parameters = next(iter(models.values())).get_params()
        if "gamma" not in parameters:
            raise ValueError(
                f"{learner} has no kernel, so there is no width to tune; choose a kernel learner"
            )
        if "budget" not in parameters:
            budgets, models = [0], {(0, g): models[budgets[0], g] for g in widths}
        named = {f"budget {b}, gamma {g}": model for (b, g), model in models.items()}
        task.prepare(blocks, named, settings.scale)
        weights: dict[object, float] = {}
        if class_weight is not None and blocks.classes is not None:
            set_class_weight(named, class_weight, blocks.classes)
            weights = parsed_class_weight(class_weight, blocks.classes)
        refuse_large(named, blocks.first.X, blocks.n_classes)
        done = learn_blocks(blocks, named, f"tune {blocks.name}", 1000, 0, n_jobs=jobs)
        errors = {
            key: task.error(result, weights) for key, result in zip(models, done.comparison, strict=True)
        }
        least = min(errors.values())
        # A larger budget must reduce the error by at least one part in twenty.
        enough = next(b for b in budgets if min(errors[b, g] for g in widths) <= 1.05 * least)
        width = min(widths, key=lambda g: errors[enough, g])
        error, rounds = errors[enough, width], done.comparison[0].rounds
        if as_json:
            tried = [{"budget": b or None, "gamma": g, task.error_name: e} for (b, g), e in errors.items()]
            advice = {"budget": enough or None, "gamma": width, task.error_name: error}
            result = {"stream": blocks.name, "rounds": rounds, "tried": tried, "advice": advice}
            sys.stdout.write(json.dumps(result) + "\n")
        else:
            title = f"{blocks.name}: {'weighted ' if weights else ''}{task.error_title}, {rounds:,} rounds"
            out.print(grid(errors, budgets, widths, (enough, width), title, task))
            words = ["run", source, *settings.typed(), "--learner", learner]
            words += [] if class_weight is None else ["--class-weight", class_weight]
            words += ["--budget", str(enough)] if enough else []
            reason = f"{task.words(error)} on these rows"
            if error > least:
                reason += f"; the smallest budget within 5 % of the least, {task.words(least)}"
            suggest([*words, "--gamma", str(width), "--save", "model.budgetron"], reason)
            simple, what = task.baseline(done.comparison[0], weights)
            if least > simple:
                err.print(f"! All of them are worse than {what}, which has {task.words(simple)}.")
                suggest(["compare", source, *settings.typed()], "other learners may do better")
    exit_if_interrupted(done.complete, done.comparison)
