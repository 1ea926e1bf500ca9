import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Floats, Ints

def descend(
    rows: NDArray[np.float32],
    which: Ints,
    y: Floats,
    diagonal: Floats,
    C: float,
    alpha: Floats,
    f: Floats,
) -> None: ...
