import numpy as np
from numpy.typing import NDArray

class Projection:
    factor: NDArray[np.float64]
    z: NDArray[np.float64]
    n: int
    def reserve(self, capacity: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[np.float64]]: ...
