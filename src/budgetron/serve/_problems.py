"""Errors of the API, as problem documents (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

from budgetron.streams._errors import Advice, Fault

__all__ = ["Problem", "internal_problem", "of_fault"]

# What to do about a value, in terms of the service.
_ADVICE = {
    Advice.FILL_MISSING: "the model was started with missing values as errors; fill it in",
    Advice.CATEGORICAL: "give values as in the rows that the model learned",
    Advice.SAME_COLUMNS: "GET /models/{name} lists the columns",
}


# Characters of a text in a document; it may contain what the client has sent.
MOST_TEXT = 600


class Problem(Exception):  # noqa: N818 - the term of RFC 9457
    """An error that the client is told about.

    Parameters
    ----------
    status : int
        The status of the response.
    kind : str
        What happened, in a form that programs can compare; the last part of the problem's type.
    detail : str
        What is wrong, where, and what to do.
    members : dict
        Further members of the document, such as ``row`` and ``column``.
    """

    def __init__(self, status: int, kind: str, detail: str, **members: object) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail = status, kind, detail
        self.members = {name: value for name, value in members.items() if value is not None}

    def document(self) -> dict[str, object]:
        """Return the problem document."""
        return {
            "type": f"urn:budgetron:problem:{self.kind}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": _shortened(self.detail),
            **{name: _shortened(value) for name, value in self.members.items()},
        }


def _shortened(value: object) -> object:
    """Return a value; text of more than `MOST_TEXT` characters ends with three dots."""
    if isinstance(value, str) and len(value) > MOST_TEXT:
        return value[: MOST_TEXT - 3] + "..."
    return value


def internal_problem() -> Problem:
    """Return the problem of an error of the service itself."""
    return Problem(500, "internal", "an error of the service; its messages have the details")


def of_fault(fault: Fault, row: int | None = None) -> Problem:
    """Return the problem of a value that cannot be used; `row` is its place in the request."""
    place = fault.row if row is None else row
    detail = f"row {place}: {fault.problem}"
    if fault.advice is not None:
        detail += f"; {_ADVICE.get(fault.advice, fault.advice.value)}"
    kind = "unknown-column" if fault.advice is Advice.SAME_COLUMNS else "bad-row"
    return Problem(422, kind, detail, row=place, column=fault.column)
