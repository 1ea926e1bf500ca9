"""The state of the service and of its models as plain values."""

from __future__ import annotations

from typing import Any

from budgetron.serve._clock import now
from budgetron.serve._entries import Entry
from budgetron.serve._service import Service

__all__ = ["describe", "health", "memory_of", "summary"]


def memory_of(entry: Entry) -> dict[str, int | None]:
    """Return the bytes that a model takes now, and the most that it may take; None without a limit."""
    model, waiting = entry.model.nbytes, entry.waiting.nbytes
    limit, waiting_limit = entry.model.memory_limit, entry.waiting.limits.bytes
    return {
        "model": model,
        "model_limit": limit,
        "waiting": waiting,
        "waiting_limit": waiting_limit,
        "total": model + waiting,
        "limit": None if limit is None else limit + waiting_limit,
    }


def summary(entry: Entry) -> dict[str, Any]:
    """Return what a list of models says about one."""
    return {
        "name": entry.name,
        "kind": type(entry.model.model).__name__,
        "round": entry.model.rounds,
        "task": entry.model.task.name,
        "classes": entry.model.task.classes,
    }


def describe(entry: Entry) -> dict[str, Any]:
    """Return all about a model."""
    model, waiting, statistics = entry.model, entry.waiting, entry.model.statistics
    oldest = waiting.oldest_time
    certificate, reason = model.certificate()
    return {
        **summary(entry),
        "learner": repr(model.model),
        "columns": [
            {"name": column["column"], "read_as": column["read_as"]} for column in model.encoder.describe()
        ],
        "labels": statistics.labels,
        **statistics.describe(),
        "rows_per_second": {
            "predicted": entry.predicted.per_second(),
            "learned": entry.learned.per_second(),
        },
        "memory": memory_of(entry),
        "waiting": {
            "rows": waiting.rows,
            "bytes": waiting.nbytes,
            "limits": {
                "rows": waiting.limits.rows,
                "bytes": waiting.limits.bytes,
                "seconds": waiting.limits.seconds,
            },
            "oldest_seconds": None if oldest is None else max(0.0, now() - oldest),
            "label_delay_seconds": statistics.delay,
            "expired": waiting.expired,
            "displaced": waiting.displaced,
        },
        "repeated": entry.repeated,
        "rejected": model.rejected,
        "experts": model.experts(),
        "changes": [{"label": int(label), "time": when} for label, when in statistics.changes],
        "certificate": certificate,
        "no_certificate": reason,
    }


def health(service: Service) -> list[str]:
    """Return what is wrong with the service; empty if it works."""
    problems = []
    if service.stopping:
        problems.append("the service is stopping")
    if service.writer.problem is not None:
        problems.append(f"the log cannot be written: {service.writer.problem}")
    for entry in list(service.entries.values()):
        if entry.snapshot_problem is not None:
            problems.append(f"no snapshot of {entry.name} can be written: {entry.snapshot_problem}")
        if entry.failure is not None:
            problems.append(f"{entry.name} stopped learning: {entry.failure}; restart the service")
    return problems
