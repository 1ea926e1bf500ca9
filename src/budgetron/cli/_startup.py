"""Start quickly: postpone modules that other libraries import, but that most commands never use."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["avoid_slow_imports", "postpone_collection", "resume_collection"]

# Commands that read files by pyarrow, not by pandas. Data sets by name may be read by pandas.
FILE_COMMANDS = ("run", "compare", "tune", "inspect", "predict")
POSTPONED = (
    "asyncio",
    "numpy._core._add_newdocs",  # the docstrings of NumPy's compiled functions
    "numpy._core._add_newdocs_scalars",
    "numpy.f2py",
    "numpy.testing",
    "scipy.special",
    "scipy.stats",
)


def avoid_slow_imports(arguments: Iterable[str]) -> None:
    """Change what this process imports for a command with these arguments; only for the command line.

    Importing scikit-learn imports the modules in `POSTPONED` and, if it is installed, pandas, and pyarrow
    imports pandas, too. They take longer than everything else together. Those in `POSTPONED` are imported
    when they are used, which is rare. Pandas is optional for both libraries, and files are read without it.
    """
    words = list(arguments)
    reads_files = words[:1] and words[0] in FILE_COMMANDS
    absent = {"pandas"} if reads_files and not any(word.startswith("data:") for word in words) else set()
    sys.meta_path.insert(0, _Finder(absent, set(POSTPONED)))


def postpone_collection() -> None:
    """Switch off the garbage collector until `resume_collection`; only for the command line.

    Imports make many objects, nearly all of which stay. Searching them for garbage takes time.
    """
    gc.disable()


def resume_collection() -> None:
    """Switch on the garbage collector for objects that are made from now on, if it was postponed."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


class _Finder(MetaPathFinder):
    """Find some modules as if they were not installed, and import others only when they are used."""

    def __init__(self, absent: set[str], postponed: set[str]) -> None:
        self._absent, self._postponed = absent, postponed

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname in self._absent:
            raise ModuleNotFoundError(f"this command does not use {fullname}", name=fullname)
        if fullname in self._postponed:
            self._postponed.remove(fullname)  # the next import, by `_Postponed`, is the real one
            return ModuleSpec(fullname, _Postponed())
        return None


class _Postponed(Loader):
    """Make a module without attributes, which imports the real one when an attribute is first used."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__

        def attribute_of(attribute: str) -> object:
            if sys.modules.get(name) is module:
                del sys.modules[name]
            return getattr(import_module(name), attribute)

        module.__getattr__ = attribute_of  # type: ignore[method-assign]  # Python calls it for missing attributes
