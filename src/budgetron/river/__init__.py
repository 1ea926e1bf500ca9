"""Every learner as a river model: `learn_one`, `predict_one`, `predict_proba_one`, and batches.

Needs river (``pip install budgetron[river]``). This module has the kernel learners, `BudgetClassifier` and
`BudgetRegressor`; `budgetron.river.linear` has the linear learners. Regressors are river regressors, and
detectors are river anomaly detectors: `score_one` is high for unusual rows. `ConformalClassifier` and
`ConformalRegressor` wrap any of these classifiers and regressors: `predict_one(x, with_set=True)` returns a
set of labels, and `predict_one(x, with_interval=True)` an interval, as in `river.conf`.

Rows are dicts. A feature gets a column when it is first learned; in earlier rows, and wherever it is missing,
its value is 0. None, NaN and pandas' NA are missing values. At most `max_features` features are accepted,
1,000 by default. One more raises an error that leaves the model unchanged. Labels may appear at any time. One
hypothesis separates the first two; from the third label on, each label has its own.

`predict_one` returns the learner's own prediction, to which the mistake bounds apply. `predict_proba_one`
computes a probability from the learner's margin by a sigmoid fitted to recent rounds (see
`budgetron.CalibratedClassifier`); `BudgetClassifier` has its own sigmoid. `learn_many` gives the same result
as a loop of `learn_one`, at the speed of batches.

Examples
--------
>>> from river import datasets, evaluate, metrics, preprocessing
>>> from budgetron import river
>>> model = preprocessing.StandardScaler() | river.Forgetron(budget=100)
>>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
Accuracy: 84.87%
"""

from __future__ import annotations

try:
    import river as _river  # noqa: F401
except ImportError as error:
    raise ImportError("budgetron.river needs river: pip install 'budgetron[river]'") from error

from budgetron import kernelized
from budgetron.portfolio import BudgetClassifier as _BudgetClassifier
from budgetron.portfolio import BudgetRegressor as _BudgetRegressor
from budgetron.river import linear
from budgetron.river._adapter import RiverClassifier
from budgetron.river._conformal import ConformalClassifier, ConformalRegressor
from budgetron.river._detector import RiverDetector
from budgetron.river._factory import Adapter, adapter_of
from budgetron.river._learner import RiverLearner
from budgetron.river._regressor import RiverRegressor

_learners = [
    *kernelized.learners(),
    *kernelized.regressors(),
    *kernelized.detectors(),
    _BudgetClassifier,
    _BudgetRegressor,
]

__all__ = [
    "ConformalClassifier",
    "ConformalRegressor",
    "RiverClassifier",
    "RiverDetector",
    "RiverLearner",
    "RiverRegressor",
    "linear",
    *(cls.__name__ for cls in _learners),
]

for _learner in _learners:
    globals()[_learner.__name__] = adapter_of(_learner, __name__)


def adapters() -> dict[str, type[Adapter]]:
    """Return all adapters by the name under which model files store them."""
    names = [*(cls.__name__ for cls in _learners), "ConformalClassifier", "ConformalRegressor"]
    own = {f"river.{name}": globals()[name] for name in names}
    return own | {f"river.linear.{name}": getattr(linear, name) for name in linear.__all__}


# For type checkers, which cannot see the names set above.
def __getattr__(name: str) -> type[Adapter]:
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
