"""Streams of rows with labels: arrays, files and pipes; synthetic streams; adversarial streams."""

# Nothing here imports a learner. `_bytes` opens files and pipes. `_text`, `_libsvm` and `_table` parse them
# into rows, with the help of `_ahead` in several threads. `_decide` and `_complete` decide how each column
# is read (`_columns`); `_numbers`, `_times` and `_words` define how values are written. `_labels`, `_targets`
# and `_encoder` turn columns into classes, numbers to predict, and features; `_running` computes the running
# mean and standard deviation. `_read` chooses the reader. `_errors` defines the errors of all these modules.

from budgetron.streams._base import Stream, arrays
from budgetron.streams._encoder import Encoder
from budgetron.streams._errors import Advice, StreamError
from budgetron.streams._read import frame, read
from budgetron.streams._synthetic import (
    UnitVectors,
    coin_flips,
    contradict,
    drifting_gaussians,
    exponential,
    majority,
    rotating_hyperplane,
    separable,
    two_gaussians,
    unit_vectors,
)
from budgetron.streams._targets import Targets

__all__ = [
    "Advice",
    "Encoder",
    "Stream",
    "StreamError",
    "Targets",
    "UnitVectors",
    "arrays",
    "coin_flips",
    "contradict",
    "drifting_gaussians",
    "exponential",
    "frame",
    "majority",
    "read",
    "rotating_hyperplane",
    "separable",
    "two_gaussians",
    "unit_vectors",
]
