"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

LEARNER = (
    "A name, optionally with parameters: forgetron:variant=greedy, budget:memory=4MB. Kernel learners: "
    "budget, secondorder, forgetron, projectron, projectron++, rbp, removeoldest, cks, stoptron, shrinking, "
    "perceptron, pa, votedkernelperceptron. Linear learners: arow, linear.pa, linear.perceptron, "
    "linear.marginperceptron, linear.votedperceptron, winnow, onlinesvm. For numbers as targets: budget, "
    "secondorder, kernelpa, norma, arow, linear.pa."
)
SOURCE = "A file (CSV, JSON lines, Parquet, LIBSVM; may be compressed), - for standard input, or data:NAME."
ROWS_PANEL = "Input rows"
RESULTS_PANEL = "Output"


class Format(StrEnum):
    """Formats of files."""

    csv = "csv"
    jsonl = "jsonl"
    parquet = "parquet"
    libsvm = "libsvm"


class Task(StrEnum):
    """What is predicted: classes or numbers."""

    classification = "classification"
    regression = "regression"


class Encode(StrEnum):
    """Ways to encode categories."""

    auto = "auto"
    onehot = "onehot"
    hash = "hash"


class Missing(StrEnum):
    """How to treat missing values."""

    mean = "mean"
    error = "error"


class Decimal(StrEnum):
    """Decimal marks."""

    point = "."
    comma = ","


class DateOrder(StrEnum):
    """What comes first in dates such as 03/04/2024."""

    auto = "auto"
    day = "day"
    month = "month"


def _rows(*names: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(*names, help=text, rich_help_panel=ROWS_PANEL)
    return info


def _results(
    *names: str, text: str, metavar: str | None = None, min: int | None = None
) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(
        *names, help=text, rich_help_panel=RESULTS_PANEL, metavar=metavar, min=min
    )
    return info


# ---------------------------------------------------------------------- the rows

Target = Annotated[
    str | None,
    _rows("--target", "-t", text="The target column: its name, or its number counted from 1 (-1: the last)."),
]
TaskOption = Annotated[
    Task | None,
    _rows(
        "--task",
        text="Whether the targets are classes or numbers. By default the first 1000 rows decide: numbers "
        "with decimals are numbers, and so are more than 20 different whole numbers that span more than 100.",
    ),
]
FileFormat = Annotated[
    Format | None, _rows("--format", "-f", text="By default determined by the file name or the first line.")
]
Classes = Annotated[
    str | None,
    _rows(
        "--classes", text="All labels, separated by commas. By default the file is read once to find them."
    ),
]
Categorical = Annotated[
    str | None,
    _rows(
        "--categorical",
        text="Columns to treat as categories, separated by commas. A name that contains a comma is quoted, "
        "here and below: --ignore '\"size, cm\",colour'.",
    ),
]
Numeric = Annotated[str | None, _rows("--numeric", text="Columns to treat as numbers, separated by commas.")]
Keep = Annotated[
    str | None, _rows("--keep", text="Columns to use even if they look like ids, separated by commas.")
]
Ignore = Annotated[str | None, _rows("--ignore", text="Columns that are not used, separated by commas.")]
Encoding = Annotated[
    Encode,
    _rows(
        "--encode",
        text="Encode categories: onehot (one feature per level), hash, or auto (by the number of levels).",
    ),
]
Scale = Annotated[
    bool,
    _rows(
        "--scale/--no-scale",
        text="Standardise numbers by their running mean and standard deviation. The learner budget scales "
        "tables of numbers itself. Numbers to predict are standardised, too.",
    ),
]
MissingValues = Annotated[
    Missing,
    _rows(
        "--missing",
        text="Missing numbers are replaced by the running mean, with a feature that marks them; missing "
        "categories are a level. Or both are an error.",
    ),
]
NaValues = Annotated[
    str | None,
    _rows(
        "--na-values",
        text="Texts that mean a missing value, separated by commas. Known without this option: empty text, "
        "?, -, NA, N/A, NaN, null, None.",
    ),
]
DecimalMark = Annotated[
    Decimal | None,
    _rows("--decimal", text="The decimal mark, if the numbers leave it open (1,234), as . or ,"),
]
Dates = Annotated[
    DateOrder, _rows("--date-order", text="What comes first in dates such as 03/04/2024: day or month.")
]
Constant = Annotated[
    bool, _rows("--constant/--no-constant", text="Add a column of ones, the intercept of linear learners.")
]
Header = Annotated[
    bool, _rows("--header/--no-header", text="Whether the first line of a CSV file has the column names.")
]
Delimiter = Annotated[str | None, _rows("--delimiter", text="The delimiter of a CSV file.")]
Features = Annotated[int | None, _rows("--features", text="The number of features of a LIBSVM file.")]
ZeroBased = Annotated[bool, _rows("--zero-based", text="Indices of the LIBSVM file start at 0.")]
Rows = Annotated[int | None, typer.Option("--rows", min=1, help="Learn at most this number of rows.")]

# ---------------------------------------------------------------------- the learners

RunLearner = Annotated[
    str | None,
    typer.Option(
        "--learner",
        "-l",
        help=LEARNER + " Default: budget, which has nothing to tune; forgetron (for numbers secondorder) if "
        "--budget, --gamma or --average is given.",
    ),
]
CompareLearners = Annotated[
    list[str] | None, typer.Option("--learner", "-l", help=LEARNER + " May be repeated.")
]
TuneLearner = Annotated[
    str | None,
    typer.Option(
        "--learner", "-l", help="A kernel learner. Default: forgetron; for numbers as targets secondorder."
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        "-m",
        help="Memory limit of the learner budget, as 64kB, 16MB or 1GB (1 MB = 2^20 bytes). Default: 16MB.",
    ),
]
RunBudget = Annotated[
    int | None,
    typer.Option("--budget", "-b", min=1, help="Largest number of supports of other learners. Default: 200."),
]
CompareBudgets = Annotated[
    list[int] | None,
    typer.Option("--budget", "-b", min=1, help="Largest number of supports. Default: 200. May be repeated."),
]
TuneBudgets = Annotated[
    list[int] | None, typer.Option("--budget", "-b", min=1, help="Budgets to try. May be repeated.")
]
RunGamma = Annotated[
    str | None,
    typer.Option(
        "--gamma",
        "-g",
        help="gamma of the kernel (larger is narrower): a number, scale or auto. Default: scale.",
    ),
]
CompareGammas = Annotated[
    list[str] | None,
    typer.Option(
        "--gamma",
        "-g",
        help="gamma of the kernel (larger is narrower): a number, scale or auto. Default: scale. May be "
        "repeated.",
    ),
]
TuneGammas = Annotated[
    list[float] | None,
    typer.Option("--gamma", "-g", help="Values of gamma to try (larger is narrower). May be repeated."),
]
Average = Annotated[
    bool,
    typer.Option(
        "--average",
        help="Learn the average of all hypotheses. It predicts new rows more reliably, but it grows with the "
        "stream and takes much longer to evaluate.",
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        help="Also predict sets of classes, or intervals of numbers, that contain the label in this share of "
        "the rounds, such as 0.9. The results show how often they did, and their size.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        help="Continue learning with the model in this file, which `run --save` wrote. Columns are read as "
        "before, and the learner keeps its parameters.",
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        "--class-weight",
        help="Weights of the losses of classes, as fraud=10,ok=1. The others have weight 1. For the learners "
        "budget, secondorder, pa, arow, linear.pa and onlinesvm.",
    ),
]
Window = Annotated[int, typer.Option("--window", min=1, help="Number of rounds for the recent error.")]
Delay = Annotated[int, typer.Option("--delay", min=0, help="Rounds until the label of a row is known.")]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=1, help="Number of processes among which the learners are divided.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of randomized learners.")]

# ---------------------------------------------------------------------- the output

Certify = Annotated[
    bool,
    _results("--certify", text="Evaluate each learner's mistake bound; keeps the stream in memory."),
]
Json = Annotated[bool, _results("--json", text="Print the results as JSON.")]
Report = Annotated[
    Path | None, _results("--report", text="Write an HTML page with curves, tables and confusion matrices.")
]
Save = Annotated[Path | None, _results("--save", text="Write the model to this file, for predict.")]
Checkpoint = Annotated[
    Path | None,
    _results(
        "--checkpoint",
        metavar="FOLDER",
        text="Save the run in this folder. If it is killed, the same command continues it.",
    ),
]
Every = Annotated[
    int | None, _results("--every", min=1, text="Rows between two checkpoints. Default: 10,000.")
]
