"""Streams to learn from: arrays, files and pipes; synthetic ones, and adversaries that make the bounds tight.

Nothing here imports a learner. `_bytes` opens files and pipes, `_text`, `_libsvm` and `_table` make rows of
their bytes, `_labels` and `_encoder` make classes and features of columns, `_read` picks among them.
"""

from budgetron.streams._base import Stream, StreamError, arrays
from budgetron.streams._encoder import Encoder
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

__all__ = [
    "Encoder",
    "Stream",
    "StreamError",
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
