from typing import Any

from numpy.typing import DTypeLike, NDArray

from budgetron._core.kernel import Kernel

def one_row(x: Any, d: int) -> NDArray[Any]: ...
def check_features(X: Any) -> None: ...
def sparse_row(x: Any, d: int) -> tuple[NDArray[Any], NDArray[Any]]: ...

class Block:
    kernel: Kernel
    single: bool
    wide: bool
    d: int
    room: int
    square: NDArray[Any]
    own: NDArray[Any]
    among: NDArray[Any]
    dense: NDArray[Any]
    starts: NDArray[Any]
    features: NDArray[Any]
    values: NDArray[Any]
    every_start: NDArray[Any]
    every_feature: NDArray[Any]
    spread: NDArray[Any]
    heads: NDArray[Any]
    index_rows: NDArray[Any]
    index_values: NDArray[Any]
    def __init__(
        self, kernel: Kernel, d: int, dtype: DTypeLike, room: int, wide: bool, predicts: bool = ...
    ) -> None: ...
    def arrays(self) -> list[NDArray[Any]]: ...
    def hold(self, features: NDArray[Any], values: NDArray[Any]) -> None: ...
    def make_matrix(self) -> None: ...
    def make_room(self, entries: int) -> None: ...

class Feed:
    n: int
    d: int
    sparse: bool
    def __init__(self, X: Any, dtype: DTypeLike) -> None: ...
