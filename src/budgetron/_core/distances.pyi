from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from budgetron._core.kernel import Kernel
from budgetron._core.supports import Supports
from budgetron._util.types import Reals

PLAIN: Kernel

class Distances:
    supports: Supports
    table: Reals
    places: NDArray[np.int32]
    compared: NDArray[np.int8]
    def keep(self, slots: NDArray[np.intp]) -> None: ...
    def check(self, supports: Supports, n: int) -> None: ...

def shared(
    X: Reals, slabs: list[Supports], births: Sequence[int], room: float = ...
) -> list[Distances | None]: ...
