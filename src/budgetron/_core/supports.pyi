from typing import Any

from numpy.typing import DTypeLike, NDArray

from budgetron._core.kernel import Kernel
from budgetron._core.rows import Block

def writeable(array: NDArray[Any]) -> NDArray[Any]: ...

class Supports:
    kernel: Kernel
    square: NDArray[Any]
    own: NDArray[Any]
    rounds: NDArray[Any]
    order: NDArray[Any]
    m: int
    top: int
    capacity: int
    d: int
    single: bool
    sparse: bool
    columns: NDArray[Any]
    begins: NDArray[Any]
    lengths: NDArray[Any]
    features: NDArray[Any]
    values: NDArray[Any]
    used: int
    one: Block
    def __getstate__(self) -> dict[str, Any]: ...
    def __setstate__(self, state: dict[str, Any]) -> None: ...
    def __init__(
        self, kernel: Kernel, d: int, dtype: DTypeLike, capacity: int, sparse: bool = ...
    ) -> None: ...
    def rows(self, slots: NDArray[Any]) -> Any: ...
    def adopt(self, other: Supports, slots: NDArray[Any]) -> None: ...
    def keep(self, slots: NDArray[Any]) -> None: ...
    def gather(self, entries: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    def reserve(self, capacity: int) -> None: ...
