"""The commands that learn: run, compare, tune."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from scipy.sparse import issparse, vstack
from sklearn.base import clone

from budgetron import files, report
from budgetron._evaluation.names import named_learners
from budgetron._util.interrupts import defer_interrupts
from budgetron._util.units import format_bytes
from budgetron.batch import AveragedClassifier
from budgetron.certificates import Certificate, certify
from budgetron.cli import _options as opt
from budgetron.cli._checkpoint import Checkpoint, checkpoint_in
from budgetron.cli._learners import DEFAULTS, learners_of, names
from budgetron.cli._sources import Source, described, takes_rows
from budgetron.cli._terminal import (
    INTERRUPTED,
    check_output,
    err,
    friendly,
    interruptible,
    out,
    results_table,
    watching,
)
from budgetron.evaluate import Comparison, Result
from budgetron.kernels import resolve_gamma

__all__ = ["compare", "run", "tune"]

Learners = dict[str, Any]


@takes_rows
def run(
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    settings: Source,
    learner: Annotated[
        str | None,
        typer.Option(
            "--learner",
            "-l",
            help=opt.LEARNER
            + " If not given: budget, which needs no choice; or forgetron, if --budget, --gamma "
            "or --average is.",
        ),
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", "-m", help=opt.MEMORY)] = None,
    budget: Annotated[
        int | None,
        typer.Option("--budget", "-b", min=1, help="Supports that other learners may keep. [default: 200]"),
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option("--gamma", "-g", help="Width of the kernel: a number, scale or auto. [default: scale]"),
    ] = None,
    rows: opt.Rows = None,
    window: opt.Window = 1000,
    delay: opt.Delay = 0,
    seed: opt.Seed = 0,
    average: Annotated[
        bool,
        typer.Option(
            "--average",
            help="Learn the average of all hypotheses: steadier on other rows, but it grows, and to ask it "
            "before each row takes long.",
        ),
    ] = False,
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
        (model,) = learners_of(
            [chosen(learner, memory, budget is not None or gamma is not None or average)],
            [budget or 200],
            [gamma or "scale"],
            seed,
        )
        models = named_learners([AveragedClassifier(model) if average else model])
        command = {"learner": learner, "memory": memory, "budget": budget, "gamma": gamma}
        command |= {"average": average, "seed": seed}
        command |= {"rows": rows, "window": window, "delay": delay} | vars(settings)
        with checkpoint_in(checkpoint_to, every, source, command) as checkpoint:
            blocks, comparison, whole = learn(
                source, settings, models, rows, window, delay, certified, checkpoint
            )
        (result,) = comparison.results
        if save is not None:
            files.save(result.model, save, extras=blocks.extras())
        certificates = certificates_of(comparison, blocks.kept) if certified else None
        present({blocks.name: comparison}, {blocks.name: certificates}, [blocks], report_to, as_json)
        if save is not None and not as_json:
            err.print(f"Saved: {save} ({format_bytes(save.stat().st_size)})", highlight=False)
    leave(whole, comparison)


def chosen(learner: str | None, memory: str | None, of_kernels: bool) -> str:
    """The learner that `run` takes, by name."""
    if learner is None:
        learner = "forgetron" if of_kernels and memory is None else "budget"
    if is_budget(learner) and of_kernels:
        raise ValueError(
            "the learner budget has no --budget, --gamma or --average, but --memory; leave these out, or "
            "name another learner"
        )
    if memory is not None and not is_budget(learner):
        raise ValueError(f"--memory is for the learner budget, and not for {learner}, which has a --budget")
    return with_memory(learner, memory)


def is_budget(learner: str) -> bool:
    """Whether this name means BudgetClassifier."""
    return learner.partition(":")[0].strip().lower() in ("budget", "budgetclassifier")


def with_memory(learner: str, memory: str | None) -> str:
    """The learner's name with the memory that it may have, if it is one that asks for it."""
    if memory is None or not is_budget(learner):
        return learner
    if "memory" in learner:
        raise ValueError(f"memory is given twice: by --memory {memory} and by {learner}")
    return f"{learner}{',' if ':' in learner else ':'}memory={memory}"


@takes_rows
def compare(
    source: Annotated[list[str], typer.Argument(help=opt.SOURCE + " Several are compared one by one.")],
    settings: Source,
    learner: Annotated[
        list[str] | None,
        typer.Option("--learner", "-l", help=opt.LEARNER + " May be repeated."),
    ] = None,
    budget: Annotated[
        list[int] | None,
        typer.Option("--budget", "-b", min=1, help="Supports that may be kept. May be repeated."),
    ] = None,
    gamma: Annotated[
        list[str] | None, typer.Option("--gamma", "-g", help="Width of the kernel. May be repeated.")
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", "-m", help=opt.MEMORY)] = None,
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
            raise ValueError("standard input can be read only once")
        check_certificate(certified, delay)
        named = [with_memory(name, memory) for name in learner or DEFAULTS]
        models = named_learners(learners_of(named, budget or [200], gamma or ["scale"], seed))
        comparisons: dict[str, Comparison] = {}
        certificates: dict[str, dict[str, Certificate | str] | None] = {}
        read: list[Prefix] = []
        whole = True
        for name in source:
            blocks, comparison, whole = learn(name, settings, models, rows, window, delay, certified)
            title = (
                blocks.name if blocks.name not in comparisons else f"{blocks.name} ({len(comparisons) + 1})"
            )
            comparisons[title] = comparison
            read.append(blocks)
            certificates[title] = certificates_of(comparison, blocks.kept) if certified else None
            if not whole:
                break
        present(comparisons, certificates, read, report_to, as_json)
        if not as_json and whole and len(source) == 1 and len(comparison.results) > 1:
            suggest_tuning(comparison.best(), source[0], settings)
    leave(whole, comparison)


@takes_rows
def tune(
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    settings: Source,
    learner: Annotated[str, typer.Option("--learner", "-l", help="A kernel learner.")] = "forgetron",
    budget: Annotated[
        list[int] | None, typer.Option("--budget", "-b", min=1, help="Budgets to try. May be repeated.")
    ] = None,
    gamma: Annotated[
        list[float] | None, typer.Option("--gamma", "-g", help="Widths to try. May be repeated.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Length of the prefix to learn.")] = 10_000,
    seed: opt.Seed = 0,
    as_json: opt.Json = False,
) -> None:
    """Find a width and a budget by one pass over the first rows of a stream.

    budgetron tune data.csv --target label
    """
    with friendly():
        blocks = open_prefix(source, settings, rows)
        budgets = sorted(set(budget or [50, 100, 200, 500, 1000]))
        middle = resolve_gamma("scale", blocks.first[0])
        widths = sorted(set(gamma or [float(f"{middle * 4.0**power:.4g}") for power in range(-3, 4)]))
        models = {(b, g): learners_of([learner], [b], [repr(g)], seed)[0] for b in budgets for g in widths}
        if "gamma" not in next(iter(models.values())).get_params():
            raise ValueError(f"{learner} has no kernel: there is no width to tune")
        if "budget" not in next(iter(models.values())).get_params():
            budgets, models = [0], {(0, g): models[budgets[0], g] for g in widths}
        named = {f"budget {b}, gamma {g}": model for (b, g), model in models.items()}
        comparison, whole = pass_over(blocks, named, f"tune {blocks.name}", 1000, 0)
        errors = {key: result.error_rate for key, result in zip(models, comparison, strict=True)}
        best = min(errors, key=lambda key: errors[key])
        # A budget is worth its memory if it saves one mistake in twenty.
        enough = next(b for b in budgets if min(errors[b, g] for g in widths) <= 1.05 * errors[best])
        width = min(widths, key=lambda g: errors[enough, g])
        advice = {"budget": enough or None, "gamma": width, "error_rate": errors[enough, width]}
        if as_json:
            tried = [{"budget": b or None, "gamma": g, "error_rate": e} for (b, g), e in errors.items()]
            out.print_json(
                json.dumps(
                    {"stream": blocks.name, "rounds": comparison[0].rounds, "tried": tried, "advice": advice}
                )
            )
        else:
            out.print(
                grid(
                    errors,
                    budgets,
                    widths,
                    (enough, width),
                    f"{blocks.name}: error %, {comparison[0].rounds:,} rounds",
                )
            )
            words = ["run", source, *settings.typed(), "--learner", learner]
            words += ["--budget", str(enough)] if enough else []
            error = 100 * errors[enough, width]
            suggest([*words, "--gamma", str(width)], f"{error:.2f} % error on these rows")
    leave(whole, comparison)


# ---------------------------------------------------------------------- one pass


class Prefix:
    """The first rows of a stream, or all; the first block is at hand before the rest.

    `encoder` is the state of the stream's encoder after the last block that was learned, `kept` all such
    blocks, if they are to be kept. Blocks of more than `most` rows are cut.
    """

    def __init__(
        self, stream: Any, rows: int | None, constant: bool, keep: bool = False, most: int | None = None
    ) -> None:
        self.stream, self.rows, self.constant, self.keep, self.most = stream, rows, constant, keep, most
        self.name, self.classes, self.size = stream.name, stream.classes, stream.size
        self.target: str | None = getattr(stream, "target", None)
        self.n_rows = stream.n_rows if rows is None else min(rows, stream.n_rows or rows)
        self.encoder: dict[str, Any] | None = None
        self.kept: list[tuple[Any, Any]] = []
        self._blocks = iter(stream)
        self.first = self._cut(next(self._blocks), 0)

    @property
    def position(self) -> int:
        return int(self.stream.position)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        block, seen = self.first, 0
        while True:
            X, y = block
            step = self.most or len(y)
            yield from ((X[at : at + step], y[at : at + step]) for at in range(0, len(y), step))
            seen += len(y)
            if self.rows is not None and seen >= self.rows:
                return
            following = next(self._blocks, None)
            if following is None:
                return
            block = self._cut(following, seen)

    def learned(self, block: tuple[Any, Any]) -> None:
        """Take note that a block was learned."""
        if hasattr(self.stream, "encoder"):
            self.encoder = self.stream.encoder.state()
        if self.keep:
            self.kept.append(block)

    def extras(self) -> dict[str, Any]:
        """What `predict` needs beside a model."""
        zero_based = getattr(self.stream, "zero_based", False)
        return {
            "encoder": self.encoder,
            "target": self.target,
            "constant": self.constant,
            "zero_based": zero_based,
        }

    def _cut(self, block: tuple[Any, Any], seen: int) -> tuple[Any, Any]:
        if self.rows is None:
            return block
        return block[0][: self.rows - seen], block[1][: self.rows - seen]


def open_prefix(
    source: str, settings: Source, rows: int | None, keep: bool = False, most: int | None = None
) -> Prefix:
    """Open a stream; a large file is read through for its classes first, which takes a while."""
    with err.status(f"opening {source}") if err.is_terminal else nullcontext():
        return Prefix(settings.open(source, rows), rows, settings.constant, keep, most)


def learn(
    source: str,
    settings: Source,
    models: Learners,
    rows: int | None,
    window: int,
    delay: int,
    keep: bool,
    checkpoint: Checkpoint | None = None,
) -> tuple[Prefix, Comparison, bool]:
    """One pass of fresh learners, or of the one of a checkpoint from there on."""
    blocks = open_prefix(source, settings, rows, keep, None if checkpoint is None else checkpoint.every)
    fresh = {name: clone(model) for name, model in models.items()}
    if checkpoint is not None:
        fresh = {name: checkpoint.model(model) for name, model in fresh.items()}
    comparison, whole = pass_over(blocks, fresh, blocks.name, window, delay, checkpoint)
    return blocks, comparison, whole


def pass_over(
    blocks: Prefix,
    models: Learners,
    title: str,
    window: int,
    delay: int,
    checkpoint: Checkpoint | None = None,
) -> tuple[Comparison, bool]:
    """Learn block by block, showing how it goes, until the end or until someone wants to stop."""
    comparison = Comparison(models, blocks.classes, window=window, delay=delay)
    if err.is_terminal:  # early, so that a column read wrongly need not be learned to the end
        err.print(described(blocks.stream), highlight=False, markup=False, soft_wrap=True)
    rest = iter(blocks)
    if checkpoint is not None:
        checkpoint.resume(comparison, blocks, rest)
    with interruptible(), watching(blocks, title, comparison) as show:
        try:
            for block in rest:
                with defer_interrupts():
                    comparison.learn(*block)
                    blocks.learned(block)
                    if checkpoint is not None:
                        checkpoint.learned(block, comparison, blocks)
                    show()
        except KeyboardInterrupt:
            return comparison, False
    comparison.finish()
    if checkpoint is not None:
        checkpoint.save(comparison, blocks, done=True)
    return comparison, True


def check_certificate(certified: bool, delay: int) -> None:
    """Refuse what no theorem speaks of."""
    if certified and delay:
        raise ValueError("--certify: the theorems speak of labels that come at once; leave out --delay")


def certificates_of(comparison: Comparison, kept: list[tuple[Any, Any]]) -> dict[str, Certificate | str]:
    """What each learner's theorem says of the rows that it learned, or why it says nothing."""
    sparse = issparse(kept[0][0])
    X = vstack([rows for rows, _ in kept]).tocsr() if sparse else np.vstack([rows for rows, _ in kept])
    y = np.concatenate([labels for _, labels in kept])
    said: dict[str, Certificate | str] = {}
    for result in comparison:
        again = clone(result.model)
        if hasattr(result.model, "gamma_"):  # of the first block, not of all rows
            again.set_params(gamma=result.model.gamma_)
        try:
            trace = again.progressive_fit(X, y, classes=comparison.classes, ledger=True)
            said[result.name] = certify(again, X, y, trace)
        except (ValueError, TypeError) as error:
            said[result.name] = str(error)
    return said


# ---------------------------------------------------------------------- what comes out


def present(
    comparisons: dict[str, Comparison],
    certificates: dict[str, dict[str, Certificate | str] | None],
    read: Sequence[Prefix],
    report_to: Path | None,
    as_json: bool,
) -> None:
    """Tables or JSON on standard output, and the page if one was asked for."""
    said = {name: entry for name, entry in certificates.items() if entry is not None}
    if report_to is not None:
        command = shlex.join(["budgetron", *sys.argv[1:]])
        report.write(report_to, comparisons, certificates=said or None, command=command)
    if as_json:
        print_json(comparisons, said, read)
        return
    for (name, comparison), blocks in zip(comparisons.items(), read, strict=True):
        if not err.is_terminal:
            err.print(described(blocks.stream), highlight=False, markup=False, soft_wrap=True)
        out.print(results_table(comparison.results, f"{name}: {comparison[0].rounds:,} rounds"))
        for learner, entry in said.get(name, {}).items():
            out.print(f"{learner}: {entry}", markup=False, highlight=False)
    if report_to is not None:
        err.print(f"Report: {report_to}", highlight=False)


def print_json(
    comparisons: dict[str, Comparison],
    certificates: dict[str, dict[str, Certificate | str]],
    read: Sequence[Prefix],
) -> None:
    """Everything, for machines."""
    plain: dict[str, Any] = {}
    for (name, comparison), blocks in zip(comparisons.items(), read, strict=True):
        plain[name] = {"read": described(blocks.stream)} | json.loads(comparison.to_json())
        if name in certificates:
            plain[name]["certificates"] = {
                learner: {"none": entry} if isinstance(entry, str) else plain_certificate(entry)
                for learner, entry in certificates[name].items()
            }
    sys.stdout.write(json.dumps({"streams": plain}) + "\n")


def plain_certificate(certificate: Certificate) -> dict[str, Any]:
    names = ("theorem", "quantity", "count", "bound", "competitor", "norm", "losses", "shift", "rounds")
    return {name: getattr(certificate, name) for name in names} | {"holds": certificate.holds}


def suggest_tuning(best: Result, source: str, settings: Source) -> None:
    """What to do next with the best learner, if it has something to tune."""
    named = {cls: name for name, cls in names().items()}
    learner = named.get(type(best.model))
    if learner is not None and "gamma" in best.model.get_params() and source != "-":
        suggest(["tune", source, *settings.typed(), "--learner", learner], "a width and a budget for it")


def suggest(words: Sequence[str], why: str) -> None:
    err.print(f"Next: {shlex.join(['budgetron', *words])}  ({why})", highlight=False, soft_wrap=True)


def grid(
    errors: dict[tuple[int, float], float],
    budgets: Sequence[int],
    widths: Sequence[float],
    chosen: tuple[int, float],
    title: str,
) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("gamma", justify="right")
    for b in budgets:
        table.add_column(f"budget {b}" if b else "no budget", justify="right")
    for g in widths:
        cells = [f"{100 * errors[b, g]:.2f}" for b in budgets]
        marked = [
            f"[bold green]{c}[/]" if (b, g) == chosen else c for b, c in zip(budgets, cells, strict=True)
        ]
        table.add_row(f"{g:g}", *marked)
    return table


def leave(whole: bool, comparison: Comparison) -> None:
    """End with the exit code of an interrupt, if there was one."""
    if not whole:
        err.print(f"Interrupted after {comparison[0].rounds:,} rounds.", highlight=False)
        raise typer.Exit(INTERRUPTED)
