"""Kernel classifiers for endless streams: fixed memory, fixed time per example, mistake bounds you can check.

Kernel learners are in this module, linear ones in `linear`. All are scikit-learn classifiers. `fit` and
`partial_fit` play one round per row, in the given order. `progressive_fit` also returns the `Trace` of the
rounds, and `play` plays a single round. `certify` compares the mistakes with the bound of the learner's
theorem. `save` and `load` store models in files.
"""

# Modules and classes are imported when they are first used: importing all of them takes as long as importing
# scikit-learn. The imports below are for type checkers.

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from budgetron import (
        batch,
        bounds,
        datasets,
        evaluate,
        experts,
        export,
        files,
        fleet,
        games,
        kernels,
        linear,
        merging,
        relevance,
        report,
        streams,
    )
    from budgetron._base.detection_trace import DetectionTrace
    from budgetron._base.regression_trace import RegressionTrace
    from budgetron._base.trace import Trace
    from budgetron.calibration import CalibratedClassifier
    from budgetron.certificates import Certificate, certify
    from budgetron.conformal import ConformalClassifier, ConformalRegressor
    from budgetron.files import ModelFileError, load, save
    from budgetron.kernelized import *  # noqa: F403 - each learner is registered there, and only there
    from budgetron.kernelized import detectors, learners, regressors
    from budgetron.portfolio import BudgetClassifier, BudgetRegressor

    __version__: str
    __all__ = [
        "BudgetClassifier",
        "BudgetRegressor",
        "CalibratedClassifier",
        "Certificate",
        "ConformalClassifier",
        "ConformalRegressor",
        "DetectionTrace",
        "ModelFileError",
        "RegressionTrace",
        "Trace",
        "batch",
        "bounds",
        "certify",
        "datasets",
        "detectors",
        "evaluate",
        "experts",
        "export",
        "files",
        "fleet",
        "games",
        "kernels",
        "learners",
        "linear",
        "load",
        "merging",
        "regressors",
        "relevance",
        "report",
        "save",
        "streams",
        *(cls.__name__ for cls in [*learners(), *regressors(), *detectors()]),
    ]

_MODULES = (
    "batch",
    "bounds",
    "datasets",
    "evaluate",
    "experts",
    "export",
    "files",
    "fleet",
    "games",
    "kernels",
    "linear",
    "merging",
    "relevance",
    "report",
    "streams",
)
_NAMES = {
    "BudgetClassifier": "portfolio",
    "BudgetRegressor": "portfolio",
    "CalibratedClassifier": "calibration",
    "Certificate": "certificates",
    "ConformalClassifier": "conformal",
    "ConformalRegressor": "conformal",
    "DetectionTrace": "_base.detection_trace",
    "ModelFileError": "files",
    "RegressionTrace": "_base.regression_trace",
    "Trace": "_base.trace",
    "certify": "certificates",
    "detectors": "kernelized",
    "learners": "kernelized",
    "load": "files",
    "regressors": "kernelized",
    "save": "files",
}


def _kernelized(module: Any) -> list[type]:
    """Return the kernel learners of the module `kernelized`."""
    return [*module.learners(), *module.regressors(), *module.detectors()]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # takes long to import

        return version("budgetron")
    from importlib import import_module

    if name == "__all__":
        kernelized = import_module("budgetron.kernelized")
        return sorted([*_MODULES, *_NAMES, *(cls.__name__ for cls in _kernelized(kernelized))])
    if name in _MODULES:
        return import_module(f"budgetron.{name}")
    if name in _NAMES or name[:1].isupper():  # other classes are kernel learners
        module = import_module(f"budgetron.{_NAMES.get(name, 'kernelized')}")
        if name in _NAMES or any(cls.__name__ == name for cls in _kernelized(module)):
            value = globals()[name] = getattr(module, name)
            return value
    raise AttributeError(f"module 'budgetron' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
