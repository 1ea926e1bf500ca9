"""Which learners fit in memory: estimated before anything is learned."""

from __future__ import annotations

from budgetron._base.access import bytes_needed, check_parameters
from budgetron._base.online_classifier import OnlineClassifier
from budgetron._base.online_regressor import OnlineRegressor
from budgetron._base.sizes import MemoryTooSmallError
from budgetron._evaluation.by_name import Learner, Learners, scales_rows
from budgetron._util.memory import available_bytes
from budgetron._util.units import format_bytes
from budgetron.cli._messages import err
from budgetron.cli._prefix import Rows

__all__ = ["give_needed_memory", "refuse_large", "without_large"]

# A batch may work on a copy of the model, and learners that share kernel values store their supports again.
COPIES = 2


def give_needed_memory(models: Learners, X: Rows, n_classes: int) -> None:
    """Give each learner with a memory limit at least what rows of this width need, in whole megabytes."""
    for name, model in models.items():
        if not scales_rows(model) or model.__sklearn_is_fitted__():
            continue
        try:
            bytes_needed(model, X, n_classes)
        except MemoryTooSmallError as error:
            memory = f"{-(-error.needed // 2**20)}MB"
            model.set_params(memory=memory)
            rows = f"{_classes(n_classes)}rows of {X.shape[1]:,} features"
            err.print(f"{name}: memory {memory}, which {rows} need; give --memory to set it")


def refuse_large(models: Learners, X: Rows, n_classes: int) -> None:
    """Raise `ValueError` if a learner does not fit in memory."""
    for name, reason in _too_large(models, X, n_classes).items():
        raise ValueError(f"{name}: {reason}")


def without_large(models: Learners, X: Rows, n_classes: int) -> tuple[Learners, dict[str, str]]:
    """Return the learners that fit in memory together, and for each of the others the reason."""
    reasons = _too_large(models, X, n_classes)
    kept = {name: model for name, model in models.items() if name not in reasons}
    if not kept:
        refuse_large(models, X, n_classes)
    return kept, reasons


def _too_large(models: Learners, X: Rows, n_classes: int) -> dict[str, str]:
    """Return why learners do not fit, by name; those before them have taken their part of the memory."""
    left, reasons = available_bytes(), {}
    for name, model in models.items():
        if not isinstance(model, OnlineClassifier | OnlineRegressor) or model.__sklearn_is_fitted__():
            continue  # unknown, or in memory already
        check_parameters(model)
        try:
            needed = COPIES * bytes_needed(model, X, n_classes)
        except MemoryTooSmallError as error:
            reasons[name] = str(error)
            continue
        if left is not None and needed > left:
            rows = f"{X.shape[1]:,} features" + (f" and {n_classes} classes" if n_classes > 1 else "")
            reasons[name] = (
                f"learning rows of {rows} needs about {format_bytes(needed)}, twice the size of the model, "
                f"and {format_bytes(left)} are available; {_advice(model)}"
            )
        elif left is not None:
            left -= needed
    return reasons


def _classes(n_classes: int) -> str:
    return f"{n_classes} classes and " if n_classes > 1 else ""


def _advice(model: Learner) -> str:
    parameters = model.get_params()
    if parameters.get("covariance") == "full":
        return "give covariance=diagonal"
    for name in ("budget", "memory"):
        if any(parameter.split("__")[-1] == name for parameter in parameters):
            return f"give a smaller --{name}, or rows of fewer features"
    return "give rows of fewer features"
