"""The command that serves models over HTTP."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from budgetron._evaluation.by_name import choose_learner, learners_of
from budgetron._util.units import format_bytes, parse_bytes
from budgetron.cli import _options as opt
from budgetron.cli._messages import err, friendly
from budgetron.cli._sources import Source, takes_rows

__all__ = ["serve"]

TOKEN = "BUDGETRON_TOKEN"
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
DEFAULT_BUDGET = 200
LEAST_WAIT = 64 << 10  # less has no place for the rows of an ordinary request
SERVICE_PANEL = "Service"
LIMITS_PANEL = "Rows that wait for labels"


def _service(*names: str, text: str, panel: str = SERVICE_PANEL) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=text, rich_help_panel=panel)
    return info


@takes_rows
def serve(
    folder: Annotated[Path, typer.Argument(help="Where models and their log are stored; created if needed.")],
    settings: Source,
    model: Annotated[
        Path | None, typer.Option("--model", help="Start with this model file, for example of `run --save`.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            help="Start with an empty model for rows like those of this file. They decide columns and "
            "classes, and are not learned.",
        ),
    ] = None,
    learner: opt.RunLearner = None,
    memory: opt.Memory = None,
    budget: opt.RunBudget = None,
    gamma: opt.RunGamma = None,
    seed: opt.Seed = 0,
    coverage: Annotated[
        float | None,
        typer.Option(
            "--coverage",
            help="With --like: also predict sets of classes, or intervals, that contain the label in this "
            "share of the rows, such as 0.9.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="The name of the model of --model or --like.")
    ] = "default",
    host: Annotated[
        str, _service("--host", text="The address to listen on. All but this machine's own need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, _service("--port", text="The port to listen on; 0 chooses a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        _service("--token-file", text=f"A file with the token of clients. Default: the variable {TOKEN}."),
    ] = None,
    keep_log: Annotated[
        bool,
        _service("--keep-log", text="Keep all learned rows in the log; by default snapshots replace them."),
    ] = False,
    wait_rows: Annotated[
        int, _service("--wait-rows", text="Most rows of a model.", panel=LIMITS_PANEL)
    ] = 100_000,
    wait_memory: Annotated[
        str, _service("--wait-memory", text="Most memory of the rows of a model.", panel=LIMITS_PANEL)
    ] = "32MB",
    wait_time: Annotated[
        str, _service("--wait-time", text="The longest time, as 90min, 12h or 7d.", panel=LIMITS_PANEL)
    ] = "7d",
) -> None:
    """Serve models over HTTP: predict rows, and learn labels when they arrive.

    budgetron serve folder --model model.budgetron
    """
    with friendly():
        try:
            from budgetron.serve import Settings, _definition, open_service, run
            from budgetron.serve._waiting import Limits
        except ImportError as error:
            raise ImportError(f"serve needs {error.name}: pip install 'budgetron[cli,serve]'") from None
        if model is not None and (like is not None or learner is not None or memory is not None):
            raise ValueError(
                "--model has its learner and its columns; leave out --like, --learner and --memory"
            )
        if like is None and (learner is not None or memory is not None):
            raise ValueError(
                "--learner and --memory need --like FILE, whose first rows decide columns and classes; or "
                "start without them, and create models by POST /models"
            )
        if like is None and coverage is not None:
            raise ValueError('--coverage needs --like FILE; or give "coverage" in POST /models')
        token = _token(token_file)
        if wait_rows < 1:
            raise ValueError(f"--wait-rows must be at least 1; got {wait_rows}")
        wait_bytes = parse_bytes(wait_memory, "--wait-memory")
        if wait_bytes < LEAST_WAIT:
            raise ValueError(
                f"--wait-memory must be at least {format_bytes(LEAST_WAIT)}; got {wait_memory!r}"
            )
        limits = Limits(wait_rows, wait_bytes, _seconds(wait_time))
        service = open_service(folder, Settings(waiting=limits, keep_log=keep_log))
        try:
            if name in service.entries:
                if model is not None or like is not None:
                    err.print(f"The folder has the model {name} already; it continues, as of its last label.")
            elif model is not None:
                service.add(name, _definition.from_file(model))
            elif like is not None:
                stream = settings.open(like)
                kernel_options = budget is not None or gamma is not None
                spec = choose_learner(learner, memory, kernel_options, stream.task)
                (fresh,) = learners_of(
                    [spec], [budget or DEFAULT_BUDGET], [gamma or "scale"], seed, stream.task
                )
                service.add(name, _definition.like_stream(fresh, stream, coverage))
        except Exception as error:
            service.log.close()
            raise ValueError(str(error)) if type(error).__name__ == "Problem" else error from None

        def started(found: int) -> None:
            shown = f"[{host}]" if ":" in host else host
            count = len(service.entries)
            models = f"{count} model{'' if count == 1 else 's'}"
            err.print(f"Serving {models} of {folder} at http://{shown}:{found}/")

        run(service, host=host, port=port, token=token, started=started)
        err.print("Stopped.")


def _token(path: Path | None) -> str | None:
    """Return the token of clients. It is not an option: other users can see the options of a process."""
    token = os.environ.get(TOKEN) if path is None else path.read_text(encoding="utf-8").strip()
    if token is not None and (
        len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token
    ):
        raise ValueError(
            "the token must have at least 8 characters: letters, digits and punctuation, no spaces"
        )
    return token


def _seconds(text: str) -> float:
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d)\s*", text)
    if found is None or float(found[1]) <= 0:
        raise ValueError(f"--wait-time: give a time above 0 as 30s, 90min, 12h or 7d; got {text!r}")
    return float(found[1]) * SECONDS[found[2]]
