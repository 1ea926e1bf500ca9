"""Models in files: no pickle, no code, exact, and safe to load from anywhere.

`save` keeps everything that a model knows, so that one which is loaded goes on exactly as
the one that was saved would have; `load` believes nothing that it reads.
"""

from budgetron._persistence.archive import ModelFileError, load, load_extras, save

__all__ = ["ModelFileError", "load", "load_extras", "save"]
