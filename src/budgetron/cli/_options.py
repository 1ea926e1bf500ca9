"""The options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

MEMORY = "What the learner budget may keep, as 64kB, 16MB or 1GB, by 1024. [default: 16MB]"
LEARNER = (
    "A name, perhaps with parameters, as in forgetron:variant=greedy or budget:memory=4MB. Kernel learners: "
    "budget, secondorder, forgetron, projectron, projectron++, rbp, removeoldest, cks, stoptron, shrinking, "
    "perceptron, pa, votedkernelperceptron. Linear ones: arow, linear.pa, linear.perceptron, "
    "linear.marginperceptron, linear.votedperceptron, winnow, onlinesvm."
)
SOURCE = "A file (CSV, JSON lines, Parquet, LIBSVM; also compressed), - for standard input, or data:NAME."
ROWS = "What the rows are"
RESULTS = "What comes out"


class Format(StrEnum):
    """Formats of files."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    libsvm = "libsvm"


class Encode(StrEnum):
    """Ways to encode categories."""

    auto = "auto"
    onehot = "onehot"
    hash = "hash"


class Missing(StrEnum):
    """What to do about missing values."""

    error = "error"
    mean = "mean"


def _rows(*names: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=text, rich_help_panel=ROWS)
    return info


def _results(*names: str, text: str, **more: Any) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=text, rich_help_panel=RESULTS, **more)
    return info


Target = Annotated[
    str | None, _rows("--target", "-t", text="The column of the labels, or its number from 1 (-1: the last).")
]
FileFormat = Annotated[
    Format | None, _rows("--format", "-f", text="By default told by the name or the first line.")
]
Classes = Annotated[
    str | None, _rows("--classes", text="All labels, with commas; by default read from the file first.")
]
Categorical = Annotated[
    str | None, _rows("--categorical", text="Columns, with commas, that are categories though numbers.")
]
Ignore = Annotated[str | None, _rows("--ignore", text="Columns, with commas, to leave out.")]
Encoding = Annotated[
    Encode, _rows("--encode", text="Categories as one column a level, hashed, or by how many there are.")
]
Scale = Annotated[
    bool, _rows("--scale/--no-scale", text="Standardise numbers by their running mean and deviation.")
]
MissingValues = Annotated[
    Missing, _rows("--missing", text="Refuse missing values, or take the running mean.")
]
Constant = Annotated[
    bool, _rows("--constant/--no-constant", text="Add a column of ones: the intercept of linear learners.")
]
Header = Annotated[
    bool, _rows("--header/--no-header", text="Whether the first line of a CSV file has the names.")
]
Delimiter = Annotated[str | None, _rows("--delimiter", text="What separates the fields of a CSV file.")]
Features = Annotated[int | None, _rows("--features", text="Number of features of a LIBSVM file.")]
ZeroBased = Annotated[bool, _rows("--zero-based", text="Whether indices of a LIBSVM file count from 0.")]

Window = Annotated[int, typer.Option("--window", min=1, help="Rounds that the recent error looks back.")]
Delay = Annotated[int, typer.Option("--delay", min=0, help="Rounds after which a label comes.")]
Rows = Annotated[int | None, typer.Option("--rows", min=1, help="Learn no more rows than this.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of learners that draw.")]
Certify = Annotated[
    bool, _results("--certify", text="Evaluate each learner's theorem on the stream (kept in memory).")
]
Json = Annotated[bool, _results("--json", text="Print everything as JSON.")]
Report = Annotated[Path | None, _results("--report", text="Write a page with curves, tables and confusions.")]
Save = Annotated[Path | None, _results("--save", text="Keep the model in this file; predict reads it.")]
Checkpoint = Annotated[
    Path | None,
    _results(
        "--checkpoint",
        metavar="FOLDER",
        text="Keep the run in this folder: killed, and given again, the command goes on.",
    ),
]
Every = Annotated[
    int | None, _results("--every", min=1, text="Rows between two checkpoints; 10,000 by default.")
]
