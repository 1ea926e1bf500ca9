"""Kernel classifiers for endless streams: fixed memory, fixed time per example, mistake bounds you can check.

Kernel learners are in this module, linear ones in `linear`. All are scikit-learn classifiers. `fit` and
`partial_fit` play one round per row, in the given order. `progressive_fit` also returns the `Trace` of the
rounds, and `play` plays a single round. `certify` compares the mistakes with the bound of the learner's
theorem. `save` and `load` store models in files.
"""

from importlib.metadata import version

from budgetron import (
    batch,
    bounds,
    datasets,
    evaluate,
    experts,
    export,
    files,
    games,
    kernels,
    linear,
    relevance,
    report,
    streams,
)
from budgetron._base.trace import Trace
from budgetron.calibration import CalibratedClassifier
from budgetron.certificates import Certificate, certify
from budgetron.files import ModelFileError, load, save
from budgetron.kernelized import *  # noqa: F403 - each learner is registered there, and only there
from budgetron.kernelized import learners
from budgetron.portfolio import BudgetClassifier

__version__ = version("budgetron")

__all__ = [
    "BudgetClassifier",
    "CalibratedClassifier",
    "Certificate",
    "ModelFileError",
    "Trace",
    "batch",
    "bounds",
    "certify",
    "datasets",
    "evaluate",
    "experts",
    "export",
    "files",
    "games",
    "kernels",
    "learners",
    "linear",
    "load",
    "relevance",
    "report",
    "save",
    "streams",
    *(cls.__name__ for cls in learners()),
]
