"""Open rows for a saved model: they are read as the rows that it learned."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite, nan
from pathlib import Path

from budgetron import streams
from budgetron._evaluation.by_name import Learner
from budgetron._evaluation.regressor import TargetScale, is_regressor
from budgetron.cli import _options as opt
from budgetron.cli._prefix import State
from budgetron.cli._sources import Source, check_path, delimiter_of, open_named
from budgetron.streams import Stream, Targets

__all__ = ["SavedModel", "load_model", "refuse_with_from"]

# Options of rows that a saved model does not decide.
FREE = ("target", "format", "header", "delimiter")


@dataclass(frozen=True)
class SavedModel:
    """A model, and how it reads rows.

    Attributes
    ----------
    model : learner
    extras : dict
        What `run --save` stores in addition to the model; empty for other model files.
    """

    model: Learner
    extras: State

    @property
    def task(self) -> str:
        """What the model predicts."""
        return "regression" if is_regressor(self.model) else "classification"

    @property
    def target_scale(self) -> TargetScale | None:
        """How the targets of a regressor were scaled."""
        stored = self.extras.get("target_scale")
        if stored is None:
            return None
        try:
            center, scale = map(float, stored)
        except (TypeError, ValueError):
            center, scale = nan, nan
        if not (isfinite(center) and isfinite(scale) and scale > 0.0):
            raise ValueError("the model file does not say how targets are scaled; save the model again")
        return TargetScale(center, scale)

    @property
    def constant(self) -> bool:
        """Whether a column of ones was added to the rows."""
        return bool(self.extras.get("constant"))

    def open(
        self,
        source: str,
        *,
        target: str | None,
        format: opt.Format | None,
        header: bool,
        delimiter: str | None,
        missing: opt.Missing | None = None,
        learn: bool = False,
        limit: int | None = None,
    ) -> Stream:
        """Open rows, encoded like those that the model learned; to `learn`, every row needs a label."""
        if source.startswith("data:"):
            return open_named(source, self.task)
        check_path(source)
        classes = None if self.task == "regression" else self.model.classes_.tolist()
        if self.extras.get("encoder") is not None:
            encoder = self._encoder()
            encoder.missing = missing or encoder.missing
            return streams.read(
                source,
                target or self.extras.get("target"),  # rows to predict need not have it
                task=self.task,
                targets=self._targets(),
                format=format,
                classes=classes,
                encoder=encoder,
                update_encoder=learn,
                need_target=target is not None,
                header=header,
                delimiter=delimiter_of(delimiter),
                limit=limit,
            )
        if not self.extras and format != "libsvm":
            raise ValueError(
                "the model was not saved by `budgetron run`, so its file does not say how columns become "
                "features; give LIBSVM rows, with --format libsvm"
            )
        return streams.read(
            source,
            target,
            format=format or "libsvm",
            n_features=self.model.n_features_in_ - self.constant,
            task=self.task,
            classes=classes,
            constant=self.constant,
            zero_based=bool(self.extras.get("zero_based")),
            optional_labels=not learn,
            limit=limit,
        )

    def _targets(self) -> Targets | None:
        """Return how numbers to predict are written; None if the model predicts classes."""
        stored = self.extras.get("targets")
        if stored is None:
            return None
        try:
            return Targets(stored["form"], stored["unit"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                "the model file does not say how targets are written; save the model again"
            ) from None

    def _encoder(self) -> streams.Encoder:
        try:
            return streams.Encoder.from_state(self.extras["encoder"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(
                "the model file does not say how columns become features; save the model again"
            ) from None


def load_model(path: Path) -> SavedModel:
    """Load a model that can predict rows of a file."""
    from budgetron._persistence.archive import load_with_extras  # takes long to import

    model, extras = load_with_extras(path)
    fitted = "n_features_in_" if is_regressor(model) else "classes_"
    if getattr(model, fitted, None) is None:  # a river adapter, or a learner that was not fitted
        raise ValueError(
            f"{path}: this model cannot predict rows of a file; use it in Python (budgetron.load)"
        )
    return SavedModel(model, extras or {})


def refuse_with_from(given: dict[str, object], settings: Source) -> None:
    """Raise `ValueError` if an option is given that the saved model decides, or that needs its whole past."""
    names = [name for name, value in given.items() if value is not None]
    names += [
        field.name.replace("_", "-")
        for field in fields(settings)
        if field.name not in FREE and getattr(settings, field.name) != field.default
    ]
    if names:
        raise ValueError(
            f"--{names[0]} cannot be given with --from: the saved model decides how rows are read and "
            "learned, and its run cannot be repeated; leave it out"
        )
