from numpy.typing import DTypeLike

from budgetron._core.kernel import Kernel
from budgetron._util.types import Indices, Matrix, Reals, Row

def one_row(x: Row, d: int) -> Reals: ...
def sparse_row(x: Row, d: int) -> tuple[Indices, Reals]: ...

class Block:
    kernel: Kernel
    single: bool
    wide: bool
    d: int
    room: int
    itemsize: int
    nbytes: int
    def __init__(
        self, kernel: Kernel, d: int, dtype: DTypeLike, room: int, wide: bool, predicts: bool = ...
    ) -> None: ...
    def set_nonzeros(self, features: Indices, values: Reals) -> None: ...

class BatchRows:
    n: int
    d: int
    sparse: bool
    def __init__(self, X: Matrix, dtype: DTypeLike) -> None: ...
