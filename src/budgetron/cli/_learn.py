"""The commands that learn: run, compare, tune."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from budgetron import files
from budgetron._evaluation.names import named_learners
from budgetron._util.units import format_bytes
from budgetron.batch import AveragedClassifier
from budgetron.cli import _options as opt
from budgetron.cli._checkpoint import checkpoint_in
from budgetron.cli._learners import DEFAULTS, choose_learner, learners_of, with_memory
from budgetron.cli._memory import refuse_large
from budgetron.cli._messages import err, friendly, out
from budgetron.cli._models import load_model, refuse_with_from
from budgetron.cli._output import exit_if_interrupted, grid, present, suggest, suggest_tuning
from budgetron.cli._pass import Certificates, Pass, certificates_of, check_certificate, learn, learn_blocks
from budgetron.cli._prefix import Prefix, open_stream
from budgetron.cli._sources import Source, takes_rows
from budgetron.cli._terminal import check_output
from budgetron.kernels import resolve_gamma

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
    with friendly():
        check_output(save, [source])
        check_output(report_to, [source])
        check_certificate(certified, delay)
        saved = None
        if continued is None:
            name = choose_learner(learner, memory, budget is not None or gamma is not None or average)
            (model,) = learners_of([name], [budget or DEFAULT_BUDGET], [gamma or "scale"], seed)
            model = AveragedClassifier(model) if average else model
        else:
            given: dict[str, object] = {
                "learner": learner,
                "memory": memory,
                "budget": budget,
                "gamma": gamma,
            }
            given |= {"class-weight": class_weight, "average": average or None}
            given |= {"checkpoint": checkpoint_to, "certify": certified or None}
            refuse_with_from(given, settings)
            saved = load_model(continued)
            model = saved.model
        models = named_learners([model])
        # What decides the result, in the names of the options; a checkpoint stores it.
        command = {"learner": learner, "memory": memory, "budget": budget, "gamma": gamma}
        command |= {"average": average, "seed": seed, "class_weight": class_weight}
        command |= {"rows": rows, "window": window, "delay": delay} | vars(settings)

        def write_model(done: Pass) -> None:
            if save is not None:
                files.save(done.comparison[0].model, save, extras=done.blocks.extras())

        with checkpoint_in(checkpoint_to, every, source, command) as checkpoint:
            done = learn(
                source,
                settings,
                models,
                rows=rows,
                window=window,
                delay=delay,
                keep=certified,
                checkpoint=checkpoint,
                save=write_model,
                saved=saved,
                class_weight=class_weight,
                any_memory=memory is None and "memory=" not in (learner or ""),
            )
        title = done.blocks.name
        certificates = {title: certificates_of(done)} if certified else {}
        present({title: done}, certificates, report_to, as_json)
        if save is not None and not as_json:
            err.print(f"Saved: {save} ({format_bytes(save.stat().st_size)})")
    exit_if_interrupted(done.complete, done.comparison)


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
    rows: opt.Rows = None,
    window: opt.Window = 1000,
    delay: opt.Delay = 0,
    seed: opt.Seed = 0,
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
        specs = [with_memory(name, memory) for name in learner or DEFAULTS]
        models = named_learners(learners_of(specs, budget or [DEFAULT_BUDGET], gamma or ["scale"], seed))
        passes: dict[str, Pass] = {}
        certificates: dict[str, Certificates] = {}
        for name in source:
            done = learn(
                name,
                settings,
                models,
                rows=rows,
                window=window,
                delay=delay,
                keep=certified,
                skip_large=True,
                any_memory=memory is None and not any("memory=" in spec for spec in specs),
            )
            title = done.blocks.name
            if title in passes:
                title = f"{title} ({len(passes) + 1})"
            passes[title] = done
            if certified:
                certificates[title] = certificates_of(done)
            if not done.complete:
                break
        present(passes, certificates, report_to, as_json)
        if not as_json and done.complete and len(source) == 1 and len(models) > 1:
            suggest_tuning(done.comparison.best(), source[0], settings)
    exit_if_interrupted(done.complete, done.comparison)


@takes_rows
def tune(
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    settings: Source,
    learner: opt.TuneLearner = "forgetron",
    budget: opt.TuneBudgets = None,
    gamma: opt.TuneGammas = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Number of rows to learn.")] = 10_000,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Find a width and a budget by one pass over the first rows of a stream.

    budgetron tune data.csv --target label
    """
    with friendly():
        blocks = Prefix(open_stream(source, settings, rows), rows, settings.constant)
        budgets = sorted(set(budget or [50, 100, 200, 500, 1000]))
        middle = resolve_gamma("scale", blocks.first.X)
        widths = sorted(set(gamma or [float(f"{middle * 4.0**power:.4g}") for power in range(-3, 4)]))
        models = {(b, g): learners_of([learner], [b], [repr(g)], seed)[0] for b in budgets for g in widths}
        parameters = next(iter(models.values())).get_params()
        if "gamma" not in parameters:
            raise ValueError(
                f"{learner} has no kernel, so there is no width to tune; choose a kernel learner"
            )
        if "budget" not in parameters:
            budgets, models = [0], {(0, g): models[budgets[0], g] for g in widths}
        named = {f"budget {b}, gamma {g}": model for (b, g), model in models.items()}
        refuse_large(named, blocks.first.X, len(blocks.classes))
        done = learn_blocks(blocks, named, f"tune {blocks.name}", 1000, 0)
        errors = {key: result.error_rate for key, result in zip(models, done.comparison, strict=True)}
        least = min(errors.values())
        # A larger budget must save at least one mistake in twenty.
        enough = next(b for b in budgets if min(errors[b, g] for g in widths) <= 1.05 * least)
        width = min(widths, key=lambda g: errors[enough, g])
        error, rounds = errors[enough, width], done.comparison[0].rounds
        if as_json:
            tried = [{"budget": b or None, "gamma": g, "error_rate": e} for (b, g), e in errors.items()]
            advice = {"budget": enough or None, "gamma": width, "error_rate": error}
            result = {"stream": blocks.name, "rounds": rounds, "tried": tried, "advice": advice}
            sys.stdout.write(json.dumps(result) + "\n")
        else:
            title = f"{blocks.name}: error %, {rounds:,} rounds"
            out.print(grid(errors, budgets, widths, (enough, width), title))
            words = ["run", source, *settings.typed(), "--learner", learner]
            words += ["--budget", str(enough)] if enough else []
            suggest([*words, "--gamma", str(width)], f"{100 * error:.2f} % error on these rows")
    exit_if_interrupted(done.complete, done.comparison)
