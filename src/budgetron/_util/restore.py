"""Bad input leaves a model as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["restore_on_error"]


@contextmanager
def restore_on_error(model: Any, before: dict[str, Any]) -> Iterator[None]:
    """If what follows fails, the model has the attributes again that it had before."""
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise
