"""Restore an object after an error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["restore_on_error"]


@contextmanager
def restore_on_error(target: object, attributes: Mapping[str, object]) -> Iterator[None]:
    """If an error occurs in this context, give the object these attributes and no others."""
    try:
        yield
    except BaseException:
        target.__dict__.clear()
        target.__dict__.update(attributes)
        raise
