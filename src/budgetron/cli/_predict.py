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

from budgetron import streams
from budgetron._persistence.archive import load_with_extras
from budgetron._util.atomic import atomic_write
from budgetron.cli import _options as opt
from budgetron.cli._console import visible
from budgetron.cli._learners import Learner
from budgetron.cli._prefix import LabelArray, State
from budgetron.cli._sources import check_path, delimiter_of, open_named
from budgetron.cli._terminal import OPTIONS, check_output, err, friendly
from budgetron.streams import Advice, Stream

__all__ = ["predict"]

# A function that returns what is written to a cell of CSV.
Cell: TypeAlias = Callable[[object], object]

# Spreadsheets evaluate cells that begin with one of these, some also after a line break or a tab.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

# The model determines what is an option in the other commands.
MODEL_ADVICE = OPTIONS | {
    Advice.LIST_CLASSES: "the model does not have this class",
    Advice.ZERO_BASED: "the model learned rows whose indices count from 1",
    Advice.SET_FEATURES: "the model does not have this feature; remove it",
    Advice.CATEGORICAL: "the model learned numbers in this column",
    Advice.DECIMAL: "write numbers as in the rows that the model learned",
    Advice.DATE_ORDER: "write dates as in the rows that the model learned",
    Advice.IGNORE_COLUMN: "give the column in the form that the model learned",
    Advice.TABLE_ONLY: "the model learned a table; give rows with the same columns",
    Advice.LIBSVM_ONLY: "the model learned LIBSVM rows; give rows in this format",
    Advice.LIBSVM_LINE: f"the model learned LIBSVM rows, in which {Advice.LIBSVM_LINE.value}",
    Advice.SAME_COLUMNS: "give the columns that the model learned",
}


def predict(
    model: Annotated[Path, typer.Argument(help="A file that `budgetron run --save` wrote.")],
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    margins: Annotated[
        bool, typer.Option("--margins", help="Also write the margins f(x), one column per class.")
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
        learned, extras = load_with_extras(model)
        if getattr(learned, "classes_", None) is None:  # a river adapter, or a learner that was not fitted
            raise ValueError(
                f"{model}: this model cannot predict rows of a file; use it in Python (budgetron.load)"
            )
        stream = _open(learned, extras or {}, source, target, format, header, delimiter, missing)
        to_terminal = output is None and sys.stdout.isatty()
        cell = partial(_cell, escape_formulas=escape_formulas, to_terminal=to_terminal)
        if output is None:
            wrong, labelled, rows = _write(sys.stdout, learned, stream, margins, None if as_json else cell)
            sys.stdout.flush()
        else:
            with atomic_write(output) as file:
                text = io.TextIOWrapper(file, "utf-8", newline="")
                wrong, labelled, rows = _write(text, learned, stream, margins, None if as_json else cell)
                text.detach()  # flushes, and leaves the file open
        summary = f"{rows:,} row{'' if rows == 1 else 's'} predicted"
        if labelled:
            summary += f", error {100 * wrong / labelled:.2f} % on the rows with labels"
        err.print(summary)


def _open(
    model: Learner,
    extras: State,
    source: str,
    target: str | None,
    format: opt.Format | None,
    header: bool,
    delimiter: str | None,
    missing: opt.Missing | None,
) -> Stream:
    """Open the rows, encoded like those that the model learned."""
    if source.startswith("data:"):
        return open_named(source)
    check_path(source)
    if extras.get("encoder") is not None:
        try:
            encoder = streams.Encoder.from_state(extras["encoder"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(
                "the model file does not say how columns become features; save the model again"
            ) from None
        encoder.missing = missing or encoder.missing
        return streams.read(
            source,
            target or extras.get("target"),  # rows to predict need not have it
            format=format,
            classes=model.classes_.tolist(),
            encoder=encoder,
            header=header,
            delimiter=delimiter_of(delimiter),
        )
    if not extras and format != "libsvm":
        raise ValueError(
            "the model was not saved by `budgetron run`, so its file does not say how columns become "
            "features; give LIBSVM rows, with --format libsvm"
        )
    constant = bool(extras.get("constant"))
    return streams.read(
        source,
        format=format or "libsvm",
        n_features=model.n_features_in_ - constant,
        classes=model.classes_.tolist(),
        constant=constant,
        zero_based=bool(extras.get("zero_based")),
        optional_labels=True,
    )


def _write(
    text: TextIO, model: Learner, stream: Stream, margins: bool, cell: Cell | None
) -> tuple[int, int, int]:
    """Write one line per row, JSON if there is no function for the cells of CSV.

    Return the number of wrong predictions, of labels and of rows.
    """
    wrong = labelled = rows = 0
    columns = [f"margin {label}" for label in _outputs(model)] if margins else []
    if cell is not None:
        text.write(_csv(["prediction", *columns], cell))
    for X, y in stream:
        predicted = model.predict(X)
        values = model.decision_function(X).reshape(len(predicted), -1) if margins else None
        for line in _lines(predicted, values, columns, cell):
            text.write(line)
        text.flush()  # so that the reader of a pipe gets each block at once
        # Compare as text: a class may be a number in one file and text in another.
        pairs = zip(predicted.tolist(), [None] * len(predicted) if y is None else y.tolist(), strict=True)
        differ = [str(prediction) != str(label) for prediction, label in pairs if label is not None]
        wrong, labelled, rows = wrong + sum(differ), labelled + len(differ), rows + len(predicted)
    return wrong, labelled, rows


def _lines(
    predicted: LabelArray, values: NDArray[np.float64] | None, columns: list[str], cell: Cell | None
) -> Iterator[str]:
    for i, label in enumerate(predicted.tolist()):
        numbers = [] if values is None else values[i].tolist()
        if cell is None:
            yield json.dumps({"prediction": label} | dict(zip(columns, numbers, strict=True))) + "\n"
        else:
            yield _csv([label, *numbers], cell)


def _outputs(model: Learner) -> list[object]:
    """Return the class of each margin."""
    labels: list[object] = model.classes_.tolist()
    return labels[1:] if len(labels) == 2 else labels


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
