from typing import Any

import numpy as np
from numpy.typing import NDArray

def advance(
    X: NDArray[Any], mean: NDArray[np.float64], spread: NDArray[np.float64], count: int, out: NDArray[Any]
) -> int: ...
def apply(
    X: NDArray[Any], mean: NDArray[np.float64], spread: NDArray[np.float64], count: int, out: NDArray[Any]
) -> None: ...
