"""Model files: no pickle, no code, exact, and safe to load from any source.

`save` stores everything that a model has learned: a loaded model continues exactly as the saved one would
have. `load` checks everything that it reads.
"""

from budgetron._persistence.archive import ModelFileError, load, load_extras, save

__all__ = ["ModelFileError", "load", "load_extras", "save"]
