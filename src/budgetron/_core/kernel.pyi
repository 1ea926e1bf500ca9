from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

class Kernel:
    name: str
    gamma: float
    degree: int
    coef0: float
    normalized: bool
    function: Callable[..., Any] | None
    def __init__(
        self,
        kernel: str | Callable[..., Any],
        gamma: float = ...,
        degree: int = ...,
        coef0: float = ...,
        normalized: bool = ...,
    ) -> None: ...
    def __deepcopy__(self, memo: Any) -> Kernel: ...
    def equals(self, other: Kernel) -> bool: ...
    def matrix(self, A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]: ...
    def diagonal(self, A: NDArray[Any]) -> NDArray[Any]: ...
