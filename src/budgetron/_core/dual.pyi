import numpy as np
from numpy.typing import NDArray

def descend(
    rows: NDArray[np.float32],
    which: NDArray[np.int64],
    y: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    C: float,
    alpha: NDArray[np.float64],
    f: NDArray[np.float64],
) -> None: ...
