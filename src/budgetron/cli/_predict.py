"""The command that predicts rows with a saved model."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO, TypeAlias

import numpy as np
import typer
from numpy.typing import NDArray

from budgetron._util.atomic import atomic_write
from budgetron.cli import _options as opt
from budgetron.cli._advice import MODEL_ADVICE
from budgetron.cli._console import visible
from budgetron.cli._messages import err, friendly
from budgetron.cli._models import SavedModel, load_model
from budgetron.cli._number_scores import Errors, NumberPredictor
from budgetron.cli._prefix import LabelArray
from budgetron.cli._scores import Counts, Predictor
from budgetron.cli._terminal import check_output
from budgetron.streams import Stream

__all__ = ["predict"]

# A function that returns what is written to a cell of CSV.
Cell: TypeAlias = Callable[[object], object]

# Spreadsheets evaluate cells that begin with one of these, some also after a line break or a tab.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def predict(
    model: Annotated[Path, typer.Argument(help="A file that `budgetron run --save` wrote.")],
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    margins: Annotated[
        bool, typer.Option("--margins", help="Also write the margins f(x), one column per class.")
    ] = False,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also write the probabilities, one column per class.")
    ] = False,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            help="Predict a class if its probability is at least this number, as fraud=0.2; without a class, "
            "the last one in sorted order. Otherwise the most probable of the other classes is predicted.",
        ),
    ] = None,
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals",
            help="Also write the ends of the prediction intervals, if numbers are "
            "predicted by the learner budget.",
        ),
    ] = False,
    format: opt.FileFormat = None,
    header: opt.Header = True,
    delimiter: opt.Delimiter = None,
    target: opt.Target = None,
    missing: Annotated[
        opt.Missing | None,
        typer.Option("--missing", help="How to treat missing values. Default: the setting used in training."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per row instead of CSV.")
    ] = False,
    escape_formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Write ' before labels that a spreadsheet would evaluate as formulas: those that begin with "
            "= + - @ and are not numbers. For CSV files that are opened in a spreadsheet.",
        ),
    ] = False,
) -> None:
    """Predict the rows of a file with a saved model, one line per row.

    If rows have labels, the error on them is printed at the end.

    budgetron predict model.budgetron new.csv > predictions.csv
    """
    with friendly(MODEL_ADVICE):
        check_output(output, [source, str(model)])
        if escape_formulas and as_json:
            raise ValueError("--escape-formulas is for CSV; leave it out, or leave out --json")
        saved = load_model(model)
        stream = saved.open(
            source, target=target, format=format, header=header, delimiter=delimiter, missing=missing
        )
        predictor = _predictor(saved, margins, proba, threshold, intervals)
        to_terminal = output is None and sys.stdout.isatty()
        cell = None if as_json else partial(_cell, escape_formulas=escape_formulas, to_terminal=to_terminal)
        if output is None:
            counts = _write(sys.stdout, predictor, stream, cell)
            sys.stdout.flush()
        else:
            with atomic_write(output) as file:
                text = io.TextIOWrapper(file, "utf-8", newline="")
                counts = _write(text, predictor, stream, cell)
                text.detach()  # flushes, and leaves the file open
        rows = counts.rows
        err.print(f"{rows:,} row{'' if rows == 1 else 's'} predicted{counts.summary()}")


def _predictor(
    saved: SavedModel, margins: bool, proba: bool, threshold: str | None, intervals: bool
) -> Predictor | NumberPredictor:
    """Return what predicts rows by a model, with the columns that were asked for."""
    if saved.task == "regression":
        given = {"--margins": margins, "--proba": proba, "--threshold": threshold is not None}
        return NumberPredictor(saved, intervals, [option for option, wanted in given.items() if wanted])
    if intervals:
        raise ValueError("--intervals is for numbers, but the model predicts classes; give --proba instead")
    return Predictor(saved.model, margins, proba, threshold)


def _write(
    text: TextIO, predictor: Predictor | NumberPredictor, stream: Stream, cell: Cell | None
) -> Counts | Errors:
    """Write one line per row, JSON if there is no function for the cells of CSV; return the counts."""
    counts = predictor.counts()
    if cell is not None:
        text.write(_csv(["prediction", *predictor.columns], cell))
    for X, y in stream:
        predicted, values = predictor.predict(X)
        for line in _lines(predicted, values, predictor.columns, cell):
            text.write(line)
        text.flush()  # so that the reader of a pipe gets each block at once
        counts.add(predicted, y, values)
    return counts


def _lines(
    predicted: LabelArray, values: NDArray[np.float64] | None, columns: list[str], cell: Cell | None
) -> Iterator[str]:
    for i, label in enumerate(predicted.tolist()):
        numbers = [] if values is None else values[i].tolist()
        if cell is None:
            yield json.dumps({"prediction": label} | dict(zip(columns, numbers, strict=True))) + "\n"
        else:
            yield _csv([label, *numbers], cell)


def _csv(fields: list[object], cell: Cell) -> str:
    text = io.StringIO()
    # Only characters of the line terminator are quoted, so a label with \r needs this one.
    csv.writer(text, lineterminator="\r\n").writerow([cell(field) for field in fields])
    return text.getvalue().removesuffix("\r\n") + "\n"


def _cell(value: object, *, escape_formulas: bool, to_terminal: bool) -> object:
    """Return a value as it is written to a cell of CSV. Files get labels unchanged, unless asked for."""
    if not isinstance(value, str):
        return value
    if escape_formulas and value.startswith(FORMULA) and not _is_number(value):
        value = f"'{value}"
    return visible(value) if to_terminal else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
