"""Errors of streams: what is wrong, where it is, and what to do."""

from __future__ import annotations

from enum import Enum

__all__ = ["Advice", "Fault", "StreamError"]


class Advice(Enum):
    """What the caller can do about a `StreamError`.

    The values are written for callers of `budgetron.streams.read`. The command line has its own text for each
    member, in terms of its options.
    """

    FILL_MISSING = 'fill it in, or set missing="mean"'
    NO_HEADER = "if the file has no header, set header=False"
    LIST_CLASSES = "list all labels in classes"
    CORRECT_TARGET = 'correct it; if the targets are classes, set task="classification"'
    NAME_TARGET = "set target"
    ZERO_BASED = "if they count from 0, set zero_based=True"
    SET_FEATURES = "set n_features"
    CONFIRM_FEATURES = "correct the line; if the index is right, set n_features to the number of features"
    CATEGORICAL = (
        "if the column holds categories, add it to categorical; if the text means a missing value, add it to "
        "na_values"
    )
    DECIMAL = 'set decimal to "." or ","'
    DATE_ORDER = 'set date_order to "day" or "month"'
    IGNORE_COLUMN = "unless it is the target, add it to ignore"
    TABLE_ONLY = "target, encoder, scale, categorical, numeric, keep and ignore are for tables"
    LIBSVM_ONLY = "n_features and zero_based are for LIBSVM files"
    LIBSVM_LINE = "a line has the form `label index:value ...`"
    SAME_COLUMNS = "give the columns that the encoder was fitted on"


class StreamError(ValueError):
    """A source that cannot be read.

    Parameters
    ----------
    problem : str
        Where the error is, and what is wrong.
    advice : Advice, optional
        What to do. The message of the error is the problem, followed by the advice.
    """

    def __init__(self, problem: str, advice: Advice | None = None) -> None:
        super().__init__(problem if advice is None else f"{problem}; {advice.value}")
        self.problem, self.advice = problem, advice


class Fault(Exception):  # noqa: N818 - internal; becomes a StreamError that names the line
    """A value that cannot be used; `row` counts from 0 within the current block.

    `column` is the name of its column, where the caller may need it besides the message.
    """

    def __init__(
        self, row: int, problem: str, advice: Advice | None = None, *, column: str | None = None
    ) -> None:
        super().__init__(problem)
        self.row, self.problem, self.advice, self.column = row, problem, advice, column

    def at(self, location: str) -> StreamError:
        """Return the error for the user."""
        return StreamError(f"{location}: {self.problem}", self.advice)
