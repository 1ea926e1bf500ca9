from typing import Any

import numpy as np
from numpy.typing import NDArray

class Covariance:
    d: int
    columns: NDArray[np.float64]
    variances: NDArray[np.float64]
    direction: NDArray[np.float64]
    projections: NDArray[np.float64]
    def __init__(self, d: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    def matrix(self) -> NDArray[np.float64]: ...
