from typing import Any

from numpy.typing import DTypeLike, NDArray

from budgetron._core.kernel import Kernel

def writeable(array: NDArray[Any]) -> NDArray[Any]: ...

class Supports:
    kernel: Kernel
    rows: NDArray[Any]
    square: NDArray[Any]
    own: NDArray[Any]
    rounds: NDArray[Any]
    order: NDArray[Any]
    m: int
    top: int
    capacity: int
    d: int
    single: bool
    def __init__(self, kernel: Kernel, d: int, dtype: DTypeLike, capacity: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    def reserve(self, capacity: int) -> None: ...
