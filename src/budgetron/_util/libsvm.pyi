import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Floats, Ints

def parse(
    data: bytes, zero_based: bool, width: int = -1, constant: bool = False
) -> tuple[Floats, Ints, NDArray[np.int32], Floats] | None: ...
def survey(data: bytes) -> tuple[list[float], int, int] | None: ...
