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
    block_values: int
    kernel_seconds: float
    seconds: NDArray[np.float64]
    def __init__(self, learners: list[Learner]) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def learn(
        self,
        X: NDArray[Any],
        labels: list[NDArray[np.float64]],
        margins: list[NDArray[np.float64]],
        sizes: list[NDArray[np.int64]],
    ) -> None: ...
