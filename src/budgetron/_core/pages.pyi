from numpy.typing import DTypeLike

from budgetron._util.types import AnyArray, Floats

LARGE: int

def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = ...) -> AnyArray: ...
def lengthen(holder: list[Floats], n: int) -> None: ...
