from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._core.supports import Supports

class Projection:
    factor: NDArray[np.float64]
    z: NDArray[np.float64]
    d: NDArray[np.float64]
    n: int
    capacity: int
    refactorised: int
    def reserve(self, capacity: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[np.float64]]: ...
    def rows(self) -> NDArray[np.float64]: ...
    def keep(
        self, kept: NDArray[np.intp], left: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def rebuild(self, supports: Supports) -> None: ...
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...

class Foresight:
    projection: Projection
    def __init__(self, projection: Projection, room: int) -> None: ...
