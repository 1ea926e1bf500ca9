from collections.abc import Callable
from typing import TypeAlias

from budgetron._util.types import AnyArray

# Kernel values between the rows of two arrays.
_KernelFunction: TypeAlias = Callable[[AnyArray, AnyArray], AnyArray]

class Kernel:
    name: str
    @property
    def gamma(self) -> float: ...
    @property
    def degree(self) -> int: ...
    @property
    def coef0(self) -> float: ...
    @property
    def normalized(self) -> bool: ...
    function: _KernelFunction | None
    def __init__(
        self,
        kernel: str | _KernelFunction,
        gamma: float = ...,
        degree: int = ...,
        coef0: float = ...,
        normalized: bool = ...,
    ) -> None: ...
    def __deepcopy__(self, memo: object) -> Kernel: ...
    def equals(self, other: Kernel) -> bool: ...
    def matrix(self, A: AnyArray, B: AnyArray) -> AnyArray: ...
    def diagonal(self, A: AnyArray) -> AnyArray: ...
