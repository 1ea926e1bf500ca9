"""Every learner as a river classifier: `learn_one`, `predict_one`, `predict_proba_one`, and batches.

Needs river (``pip install budgetron[river]``). Kernel learners stand here, linear ones in
`budgetron.river.linear`.

Rows are dicts. A feature gets its place when it is first learned; until then it is 0 in all that was
learned, and one that is missing is 0. There may be `max_features` of them, 1,000 if not said otherwise:
one more is an error that changes nothing. Labels are taken in as they come; the first two are told apart by
one hypothesis, from the third on there is one for each.

`predict_one` is the learner's own prediction, of which the mistake bounds speak. `predict_proba_one` is
made of its margin by a sigmoid that follows the stream (see `budgetron.CalibratedClassifier`). `learn_many`
does what a loop of `learn_one` does, at the speed of batches.

Examples
--------
>>> from river import datasets, evaluate, metrics, preprocessing
>>> from budgetron import river
>>> model = preprocessing.StandardScaler() | river.Forgetron(budget=100)
>>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
Accuracy: 84.87%
"""

from __future__ import annotations

from typing import Any

try:
    import river as _river  # noqa: F401
except ImportError as error:
    raise ImportError("budgetron.river needs river: pip install 'budgetron[river]'") from error

from budgetron import kernelized
from budgetron.portfolio import BudgetClassifier as _BudgetClassifier
from budgetron.river import linear
from budgetron.river._adapter import RiverClassifier, adapter_of

_learners = [*kernelized.learners(), _BudgetClassifier]

__all__ = ["RiverClassifier", "linear", *(cls.__name__ for cls in _learners)]

for _learner in _learners:
    globals()[_learner.__name__] = adapter_of(_learner, __name__)


def __getattr__(name: str) -> Any:  # for type checkers, who do not see the loop
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
