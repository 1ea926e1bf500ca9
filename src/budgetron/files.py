"""Model files: no pickle, no code, exact, and safe to load from any source.

`save` stores everything that a model has learned: a loaded model continues exactly as the saved one would
have. `load` checks everything that it reads.
"""

from budgetron._persistence.archive import ModelFileError, from_bytes, load, load_extras, save, to_bytes

__all__ = ["ModelFileError", "from_bytes", "load", "load_extras", "save", "to_bytes"]
