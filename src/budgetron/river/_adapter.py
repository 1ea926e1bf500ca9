"""The river face of the online learners: dicts of features that come and go, and labels as they come.

A face keeps a learner of Budgetron's other face, which sees rows of numbers and classes 0, 1, 2, ...
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from river import base

from budgetron._base.online_classifier import OnlineClassifier
from budgetron._core.calibration import log_odds, sigmoids, sound
from budgetron._util.restore import restore_on_error
from budgetron.calibration import observe, probabilities, with_class_added

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RiverClassifier", "adapter_of"]

Features = dict[Hashable, Any]

# What river calls random_state; and what speaks of labels before they come (see `river.imblearn`).
RENAMED = {"random_state": "seed"}
LEFT_OUT = {"class_weight"}
MOST_FEATURES = 1000
SKIP = "Leave out rows whose label is not known"


class RiverClassifier(base.MiniBatchClassifier):
    """What all river faces share; see `budgetron.river`."""

    _learner: ClassVar[type[OnlineClassifier]]
    _signature: ClassVar[inspect.Signature]
    max_features: int

    def __init__(self, *args: Any, **params: Any) -> None:
        bound = self._signature.bind(*args, **params)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)
        if not isinstance(self.max_features, int) or self.max_features < 1:
            raise ValueError(f"max_features must be a whole number above 0; got {self.max_features!r}")
        given = {
            name: bound.arguments[RENAMED.get(name, name)]
            for name in self._learner._get_param_names()
            if name not in LEFT_OUT
        }
        if given.get("gamma") == "scale":
            raise ValueError(
                'gamma="scale" looks at a whole batch, and river has none before the first row; '
                'scale the features (preprocessing.StandardScaler) and give a number, or "auto"'
            )
        self._model: Any = self._learner(**given)
        self._model._validate_params()
        self._places: dict[Hashable, int] = {}
        self._labels: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._sigmoids: NDArray[np.float64] = sigmoids(1)
        self._read: Any = None

    # ------------------------------------------------------------------ learning

    def learn_one(self, x: Features, y: base.typing.ClfTarget) -> None:
        """Play one round."""
        if y in self._codes and all(map(self._places.__contains__, x)):
            self._play(x, y)
            return
        if _is_missing(y):
            raise ValueError(f"the label must be a value; got {y!r}. {SKIP}")
        with self._unchanged_on_error():
            self._meet(x)
            self._play(x, y)

    def _play(self, x: Features, y: Any) -> None:
        row = self._row(x)
        code = self._code_of(y)
        if not self._is_begun():
            margins = self._model.play(row, code, classes=[0, 1])
        elif self._model._predicts_as_it_learns:
            margins = self._model.play(row, code)
        else:  # what it predicts is not what the round tells
            margins = self._margins_of(row)
            self._model.play(row, code)
        observe(self._sigmoids, np.asarray(margins, np.float64).reshape(1, -1), np.array([code]))

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Play one round per row, in order: what a loop of `learn_one` does, faster.

        A cell without a value (NaN) is a feature that is not there.
        """
        values, labels = self._table(X), list(y)
        if len(labels) != len(values):
            raise ValueError(
                f"there must be a label for each row; got {len(values)} rows and {len(labels)} labels"
            )
        if not labels:
            return
        gap = next((i for i, label in enumerate(labels) if _is_missing(label)), None)
        if gap is not None:
            raise ValueError(f"every row needs a label; that of row {gap} is {labels[gap]!r}. {SKIP}")
        if self._model._predicts_as_it_learns:
            self._learn_table(X, values, labels)
            return
        with self._unchanged_on_error():
            for row, label in zip(values, labels, strict=True):  # what it predicts, the rounds do not tell
                there = ~np.isnan(row)
                self.learn_one(dict(zip(X.columns[there], row[there], strict=True)), label)

    def _learn_table(self, X: pd.DataFrame, values: NDArray[np.float64], labels: list[Any]) -> None:
        # Cut, as a loop would find them, where a feature or a label is new.
        there = ~np.isnan(values)
        new: dict[int, Features] = {}
        for j, name in enumerate(X.columns):
            if name not in self._places and there[:, j].any():
                new.setdefault(int(there[:, j].argmax()), {})[name] = 0.0
        known = set(self._codes)
        cuts = {0, *new}
        for i, label in enumerate(labels):
            if label not in known:
                known.add(label)
                cuts.add(i)
        # Where nothing is new, it is one batch, which changes nothing if it fails: no need for a copy.
        plain = len(cuts) == 1 and not new and labels[0] in self._codes and self._is_begun()
        with nullcontext() if plain else self._unchanged_on_error():
            for start, stop in pairwise([*sorted(cuts), len(labels)]):
                self._meet(new.get(start, {}))
                self._code_of(labels[start])
                codes = np.array([self._codes[label] for label in labels[start:stop]])
                rows = self._places_of(X, values[start:stop])
                trace = self._model.progressive_fit(rows, codes, None if self._is_begun() else [0, 1])
                observe(self._sigmoids, trace.margins, codes)

    # ------------------------------------------------------------------ prediction

    def predict_one(self, x: Features, **kwargs: Any) -> Any:
        """The label that the learner predicts; None before any was seen."""
        if len(self._labels) < 2:
            return self._labels[0] if self._labels else None
        margins = self._margins_of(self._row(x))
        return self._labels[int(margins.argmax()) if len(margins) > 1 else int(margins[0] > 0.0)]

    def predict_proba_one(self, x: Features, **kwargs: Any) -> dict[Any, float]:
        """The probability of each label seen so far."""
        if len(self._labels) < 2:
            return dict.fromkeys(self._labels, 1.0)
        odds = self._odds(self._margins_of(self._row(x))[:, None])
        return dict(zip(self._labels, probabilities(odds)[0].tolist(), strict=True))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """The label that the learner predicts for each row."""
        import pandas as pd

        if len(self._labels) < 2:
            return pd.Series([self.predict_one({})] * len(X), index=X.index, dtype=object)
        margins = self._margins_of(self._places_of(X, self._table(X)))
        codes = margins.argmax(axis=0) if len(margins) > 1 else (margins[0] > 0.0).astype(int)
        return pd.Series([self._labels[code] for code in codes], index=X.index)

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """The probability of each label seen so far, for each row."""
        import pandas as pd

        if len(self._labels) < 2:
            return pd.DataFrame(1.0, index=X.index, columns=self._labels)
        return pd.DataFrame(
            probabilities(self._odds(self._margins_of(self._places_of(X, self._table(X))))),
            index=X.index,
            columns=self._labels,
        )

    # ------------------------------------------------------------------ what was learned

    @property
    def nbytes_(self) -> int:
        """Bytes of all arrays that the model keeps."""
        return (self._model.nbytes_ if self._is_begun() else 0) + self._sigmoids.nbytes

    @property
    def _raw_memory_usage(self) -> int:
        return int(super()._raw_memory_usage) + self.nbytes_

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        # Small models: river's checks are about manners
        yield {"memory": "256kB"} if "memory" in cls._signature.parameters else {}

    # ------------------------------------------------------------------ files

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters."""
        return list(cls._signature.parameters)

    @classmethod
    def from_parts(cls, parameters: dict[str, Any], *parts: Any) -> RiverClassifier:
        """Return a classifier from its parameters and the result of `to_parts`, after checking it."""
        model = cls(**parameters)
        model._restore_parts(*parts)
        return model

    def to_parts(self) -> dict[str, Any]:
        """What there is beside the parameters."""
        return {
            "model": self._model,
            "features": list(self._places),
            "labels": self._labels,
            "sigmoids": self._sigmoids,
        }

    def _restore_parts(self, model: Any, features: Any, labels: Any, sigmoids: Any) -> None:
        """Go on from there; whatever cannot be raises a ValueError."""
        if type(model) is not self._learner or model.get_params() != self._model.get_params():
            raise ValueError("the learner should be the face's own")
        for what in (features, labels):
            if not isinstance(what, list) or len(set(what)) < len(what):
                raise ValueError("features and labels should be lists, each named once")
        if any(map(_is_missing, labels)):
            raise ValueError("labels should be values")
        begun = model.__sklearn_is_fitted__()
        outputs = len(labels) if len(labels) > 2 else 1
        right = (
            model.n_features_in_ == len(features) <= self.max_features
            and model.classes_.tolist() == list(range(max(2, len(labels))))
            and len(labels) > 0
            if begun
            else not features and not labels
        )
        if not right or not sound(sigmoids, outputs):
            raise ValueError("features, labels and sigmoids should be those of the learner")
        self._model, self._labels, self._sigmoids = model, labels, sigmoids
        self._places = {name: place for place, name in enumerate(features)}
        self._codes = {label: code for code, label in enumerate(labels)}
        self._read = itemgetter(*features) if len(features) > 1 else None

    # ------------------------------------------------------------------ below the surface

    def _unchanged_on_error(self) -> AbstractContextManager[None]:
        return restore_on_error(self, copy.deepcopy(self.__dict__))

    def _is_begun(self) -> bool:
        return bool(self._model.__sklearn_is_fitted__())

    def _dtype(self) -> Any:
        return self._model._learners[0].dtype if self._is_begun() else np.float64

    def _meet(self, x: Features) -> None:
        """Give features that are new a place; all of them, or none."""
        new = [name for name in x if name not in self._places]
        if not new:
            return
        n = len(self._places) + len(new)
        if n > self.max_features:
            raise ValueError(
                f"there would be {n:,} features with {new[0]!r}, and max_features is {self.max_features:,}; "
                "raise it, or hash them (river.feature_extraction.FeatureHasher)"
            )
        for name in x:
            _number(name, x[name])
        self._places |= {name: len(self._places) + i for i, name in enumerate(new)}
        if self._is_begun():
            self._model._add_features(n)
        self._read = itemgetter(*self._places) if n > 1 else None

    def _row(self, x: Features) -> NDArray[Any]:
        """The features as a row of numbers. What is missing is 0; what was never learned is left out."""
        row = np.zeros(len(self._places), self._dtype())
        if self._read is not None and len(x) == len(self._places):
            try:
                row[:] = self._read(x)
                return row
            except (KeyError, TypeError, ValueError):
                pass  # other features, or what cannot be a number, which is said below
        for name, value in x.items():
            place = self._places.get(name)
            if place is not None:
                row[place] = _number(name, value)
        return row

    def _table(self, X: pd.DataFrame) -> NDArray[np.float64]:
        try:
            values: NDArray[np.float64] = X.to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            odd = next(name for name, kind in X.dtypes.items() if kind.kind not in "biuf")
            raise ValueError(
                f"feature {odd!r} is not a number; encode it (preprocessing.OneHotEncoder)"
            ) from None
        if np.isinf(values).any():
            raise ValueError("features must be finite; there is an infinity")
        return values

    def _places_of(self, X: pd.DataFrame, values: NDArray[np.float64]) -> NDArray[Any]:
        """The values of a table, each at its feature's place."""
        rows = np.zeros((len(values), len(self._places)), self._dtype())
        for j, name in enumerate(X.columns):
            if name in self._places:
                rows[:, self._places[name]] = np.nan_to_num(values[:, j])
        return rows

    def _code_of(self, y: Any) -> int:
        """The class of a label; one that is new becomes one."""
        code = self._codes.get(y)
        if code is None:
            code = len(self._labels)
            if code >= 2:  # two there are from the beginning
                self._model._admit(code)
                self._sigmoids = with_class_added(self._sigmoids, code)
            self._codes[y] = code
            self._labels.append(y)
        return code

    def _margins_of(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """What each hypothesis says of one row, or of each of several."""
        margins: NDArray[np.float64]
        learners = self._model._learners
        if rows.ndim == 2:
            margins = self._model._next_margins(rows)
        elif self._model._predicts_as_it_learns and _has_budget(learners[0]):
            # A round that is opened and not closed: much faster. Without a budget it might make room.
            margins = np.array([learner.open_round(rows) for learner in learners])
        else:
            margins = self._model._next_margins(rows[None])[:, 0]
        if not np.isfinite(margins).all():
            raise ValueError(
                "features must be finite and not too large; scale them (preprocessing.StandardScaler)"
            )
        return margins

    def _odds(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        odds = np.array([log_odds(numbers, f) for numbers, f in zip(self._sigmoids, margins, strict=True)])
        return odds[0] if len(odds) == 1 else odds.T


def _has_budget(learner: Any) -> bool:
    return not hasattr(learner, "rule") or learner.rule.budget > 0


def _is_missing(label: Any) -> bool:
    """Whether this is None, a NaN (each of which would be a class of its own), or pandas' NA or NaT."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # NA cannot be told from itself
        return True


def _number(name: Hashable, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise ValueError(
            f"feature {name!r} must be a finite number; got {value!r}. Leave out what is missing, and encode "
            "text (preprocessing.OneHotEncoder)"
        )
    return number


def adapter_of(learner: type[OnlineClassifier], module: str) -> type[RiverClassifier]:
    """The river face of a learner, to stand in `module`."""
    parameters = []
    for parameter in inspect.signature(learner).parameters.values():
        if parameter.name in LEFT_OUT:
            continue
        default = "auto" if parameter.name == "gamma" else parameter.default
        name = RENAMED.get(parameter.name, parameter.name)
        parameters.append(parameter.replace(name=name, default=default, annotation=inspect.Parameter.empty))
    parameters.append(
        inspect.Parameter("max_features", inspect.Parameter.KEYWORD_ONLY, default=MOST_FEATURES)
    )
    signature = inspect.Signature(parameters)
    renamed = "`random_state` is `seed` here"
    if "gamma" in signature.parameters:
        renamed += ', and `gamma` is "auto" if\n    not given: 1 by the number of features in the first row'
    summary = inspect.cleandoc(learner.__doc__ or "").split("\n", 1)[0]
    home = learner.__module__.rsplit(".", 1)[0].removesuffix(".kernelized")
    made: type[RiverClassifier] = type(
        learner.__name__,
        (RiverClassifier,),
        {
            "__doc__": f"""{summary}

    The river face of `{home}.{learner.__name__}`, which see for its parameters; {renamed}.

    Parameters
    ----------
    max_features
        The most features that may ever be seen.
    """,
            "__module__": module,
            "_learner": learner,
            "_signature": signature,
            "__init__": _make_init(signature),
        }
        | {name: property(told) for name, told in TOLD.items() if hasattr(learner, name)},
    )
    return made


def _experts(face: RiverClassifier) -> list[dict[str, Any]]:
    """What is inside, by the labels that were seen."""
    labels = face._labels
    return [expert | {"class": labels[int(expert["class"])]} for expert in face._model.experts_]


def _regret(face: RiverClassifier) -> float:
    """Loss of the vote less that of the best expert."""
    return float(face._model.regret_)


def _regret_bound(face: RiverClassifier) -> float:
    """What the regret cannot exceed."""
    return float(face._model.regret_bound_)


# What a learner of experts tells, and its face too
TOLD = {"experts_": _experts, "regret_": _regret, "regret_bound_": _regret_bound}


def _make_init(signature: inspect.Signature) -> Any:
    def init(self: RiverClassifier, *args: Any, **params: Any) -> None:
        RiverClassifier.__init__(self, *args, **params)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    init.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *signature.parameters.values()]
    )
    return init
