from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE: int

def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = ...) -> NDArray[Any]: ...
def lengthen(held: list[NDArray[np.float64]], n: int) -> None: ...
