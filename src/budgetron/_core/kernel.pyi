from collections.abc import Callable
from typing import Any

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
