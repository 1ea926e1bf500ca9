"""The command that applies a saved model."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from budgetron import files, streams
from budgetron._util.atomic import atomic_write
from budgetron.cli import _options as opt
from budgetron.cli._sources import check_path, named, tab_of
from budgetron.cli._terminal import TYPED, check_output, err, friendly

__all__ = ["predict"]

# Here the model decides what the other commands have options for.
DECIDED = {
    "count from 1, unless zero_based is set": "count from 1, as in the rows that the model learned",
    "the highest so far or by n_features; give n_features": "the highest that the model knows; leave it out",
    "; target, encoder, scale, categorical and ignore are for tables": (
        ", and the model learned a table; give rows with its columns"
    ),
    "n_features and zero_based are for LIBSVM files": "the model takes LIBSVM rows",
    "is not a number; a line is": "is not a number; the model takes LIBSVM rows, of which a line is",
    "is missing; there are": "is missing; columns must be named as those that the model learned, and are",
    "; the encoder knows it as numbers": "; the model learned numbers",
    "if it is not the target, name it in ignore": "give it as the model learned it",
} | TYPED


def predict(
    model: Annotated[Path, typer.Argument(help="A file that `budgetron run --save` wrote.")],
    source: Annotated[str, typer.Argument(help=opt.SOURCE)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to this file.")] = None,
    margins: Annotated[
        bool, typer.Option("--margins", help="Write f(x) as well, one column a class.")
    ] = False,
    format: opt.FileFormat = None,
    header: opt.Header = True,
    delimiter: opt.Delimiter = None,
    target: opt.Target = None,
    missing: Annotated[
        opt.Missing | None,
        typer.Option("--missing", help="As in run; by default what the model learned with."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a row instead of CSV.")] = False,
) -> None:
    """Predict the rows of a file with a saved model, one line a row.

    If the rows have labels, the share of wrong predictions is told at the end.

    budgetron predict model.budgetron new.csv > predictions.csv
    """
    with friendly(DECIDED):
        check_output(output, [source, str(model)])
        learned = files.load(model)
        if not hasattr(learned, "classes_"):
            raise ValueError(f"{model}: this model cannot be asked here; load it in Python (budgetron.load)")
        extras = files.load_extras(model) or {}
        stream = _open(learned, extras, source, target, format, header, delimiter, missing)
        if output is None:
            wrong, labelled, rows = _write(sys.stdout, learned, stream, margins, as_json)
            sys.stdout.flush()
        else:
            with atomic_write(output) as file:
                text = io.TextIOWrapper(file, "utf-8", newline="")
                wrong, labelled, rows = _write(text, learned, stream, margins, as_json)
                text.detach()  # flushes, and leaves the file open
        said = f"{rows:,} row{'' if rows == 1 else 's'} predicted"
        if labelled:
            said += f", {100 * wrong / labelled:.2f} % of those with a label differ from it"
        err.print(said, highlight=False)


def _open(
    model: Any,
    extras: dict[str, Any],
    source: str,
    target: str | None,
    format: opt.Format | None,
    header: bool,
    delimiter: str | None,
    missing: opt.Missing | None,
) -> Any:
    """The rows, encoded as those that the model learned."""
    if source.startswith("data:"):
        return named(source)
    check_path(source)
    if extras.get("encoder") is not None:
        try:
            encoder = streams.Encoder.from_state(extras["encoder"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError("the model's file does not tell how columns become features") from None
        encoder.missing = missing or encoder.missing
        return streams.read(
            source,
            target or extras.get("target"),  # rows to predict need not have it
            format=format,
            classes=model.classes_.tolist(),
            encoder=encoder,
            header=header,
            delimiter=tab_of(delimiter),
        )
    if not extras and format != "libsvm":
        raise ValueError(
            "the model was not saved by `budgetron run`, so that its file does not tell how columns become "
            "features; give rows as LIBSVM, with --format libsvm"
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


def _write(text: TextIO, model: Any, stream: Any, margins: bool, as_json: bool) -> tuple[int, int, int]:
    """Write a line a row; how many differ from their labels, how many have one, and how many there are."""
    wrong = labelled = rows = 0
    columns = [f"margin {label}" for label in _outputs(model)] if margins else []
    if not as_json:
        text.write(_csv(["prediction", *columns]))
    for X, y in stream:
        predicted = model.predict(X)
        values = model.decision_function(X).reshape(len(predicted), -1) if margins else None
        for line in _lines(predicted, values, columns, as_json):
            text.write(line)
        text.flush()  # whoever reads a pipe need not wait for the end
        # As text, for a class may be a number here and text there.
        pairs = zip(predicted.tolist(), [None] * len(predicted) if y is None else y.tolist(), strict=True)
        differ = [str(said) != str(label) for said, label in pairs if label is not None]
        wrong, labelled, rows = wrong + sum(differ), labelled + len(differ), rows + len(predicted)
    return wrong, labelled, rows


def _lines(predicted: Any, values: Any, columns: list[str], as_json: bool) -> Iterator[str]:
    for i, label in enumerate(predicted.tolist()):
        numbers = [] if values is None else values[i].tolist()
        if as_json:
            yield json.dumps({"prediction": label} | dict(zip(columns, numbers, strict=True))) + "\n"
        else:
            yield _csv([label, *numbers])


def _outputs(model: Any) -> list[Any]:
    """The classes that margins speak for."""
    labels: list[Any] = model.classes_.tolist()
    return labels[1:] if len(labels) == 2 else labels


def _csv(fields: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()
