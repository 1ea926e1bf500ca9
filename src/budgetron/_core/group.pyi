from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from budgetron._core.rounds import Learner
from budgetron._core.supports import Supports
from budgetron._util.types import Floats, Ints, Matrix

class LearnerGroup:
    learners: list[Learner]
    places: list[NDArray[np.int32]]
    pool: Supports
    kernel_values: int
    kernel_seconds: float
    seconds: Floats
    def __init__(self, learners: list[Learner], of_one_model: bool = ...) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def learn(
        self,
        X: Matrix,
        labels: list[Floats],
        margins: Sequence[Floats | None],
        sizes: Sequence[Ints | None],
        threads: int = ...,
        importances: list[Floats | None] | None = ...,
    ) -> None: ...
