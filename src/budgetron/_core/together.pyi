from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._core.rounds import Learner
from budgetron._core.supports import Supports

class Together:
    learners: list[Learner]
    places: list[NDArray[np.int32]]
    pool: Supports
    kernel_values: int
    kernel_seconds: float
    seconds: NDArray[np.float64]
    def __init__(self, learners: list[Learner], of_one_model: bool = ...) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def learn(
        self,
        X: Any,
        labels: list[NDArray[np.float64]],
        margins: Sequence[NDArray[np.float64] | None],
        sizes: Sequence[NDArray[np.int64] | None],
        threads: int = ...,
        importances: list[NDArray[np.float64] | None] | None = ...,
    ) -> None: ...
