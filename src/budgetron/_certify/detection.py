"""`certify` for detectors: the bound on the number of alarms."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from sklearn.utils.validation import check_is_fitted

from budgetron._base.access import check_parameters, checked_rows
from budgetron._base.detection_trace import DetectionTrace
from budgetron._base.online_detector import OnlineDetector
from budgetron._certify.certificate import Certificate, refuse_failed
from budgetron._util.types import Rows
from budgetron.bounds import THEOREMS, Assumption

__all__ = ["AlarmCertificate", "certify_alarms"]


@dataclass(frozen=True)
class AlarmCertificate(Certificate):
    """A bound on the number of alarms. There is no competitor."""

    def _lines(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in super()._lines() if name != "competitor"]


def certify_alarms(
    model: OnlineDetector,
    X: Rows,
    trace: DetectionTrace,
    competitor: object,
    theorem: str | None,
    check: bool,
) -> AlarmCertificate:
    """Compare the alarms with their bound; see `budgetron.certify`."""
    entry = THEOREMS["false_alarms"]
    check_is_fitted(model)
    check_parameters(model)
    if theorem not in (None, entry.name):
        raise ValueError(f"{model!r} has no theorem {theorem}; it has: {entry.name}")
    if not (isinstance(competitor, str) and competitor == "best"):
        raise ValueError(f"the bound on alarms compares with no competitor; got {competitor!r}")
    rows = checked_rows(model, X)
    if not rows.shape[0] == len(trace) == model.rounds_:
        raise ValueError(
            "X and trace must be the whole stream that the model learned: "
            f"{rows.shape[0]} rows, {len(trace)} rounds in the trace, {model.rounds_} in the model"
        )
    count = int(trace.alarms.sum())
    if count != model.alarms_:
        raise ValueError(f"trace must be the model's own: it has {count} alarms, the model {model.alarms_}")
    assumptions: list[Assumption] = []
    bound = model.alarm_bound(len(trace), assumptions)
    if check:
        refuse_failed(assumptions, entry.source)
    return AlarmCertificate(
        learner=repr(model),
        theorem=entry.source,
        quantity=entry.quantity,
        count=count,
        bound=bound,
        competitor="none",
        norm=nan,
        losses=0.0,
        shift=0.0,
        rounds=len(trace),
        assumptions=assumptions,
    )
