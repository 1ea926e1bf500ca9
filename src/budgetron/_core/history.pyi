from typing import Any

import numpy as np
from numpy.typing import NDArray

class Average:
    lag: NDArray[np.float64]
    elapsed: float
    norm2: float
    own: float
    def __init__(self, n: int) -> None: ...
    def reserve(self, n: int) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...
    def total(self, weights: NDArray[np.float64]) -> NDArray[np.float64]: ...

class Journal:
    n: int
    size: int
    steps: int
    rounds: NDArray[np.int64]
    ends: NDArray[np.int64]
    places: NDArray[np.int64]
    factor_rounds: NDArray[np.int64]
    factors: NDArray[np.float64]
    scales: NDArray[np.float64]
    deltas: NDArray[np.float64]
    def state(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
