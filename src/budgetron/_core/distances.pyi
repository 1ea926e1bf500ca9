from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._core.kernel import Kernel
from budgetron._core.supports import Supports

PLAIN: Kernel

class Distances:
    supports: Supports
    table: NDArray[Any]
    places: NDArray[np.int32]
    compared: NDArray[np.int8]
    def keep(self, slots: NDArray[np.intp]) -> None: ...
    def check(self, supports: Supports, n: int) -> None: ...

def shared(
    X: NDArray[Any], slabs: list[Supports], births: Sequence[int], room: float = ...
) -> list[Distances | None]: ...
