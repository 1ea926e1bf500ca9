from numpy.typing import DTypeLike

from budgetron._core.kernel import Kernel
from budgetron._util.types import AnyArray, Floats, Indices, Ints, Matrix, Reals, Row

def one_row(x: Row, d: int) -> Reals: ...
def sparse_row(x: Row, d: int) -> tuple[Indices, Reals]: ...

class Block:
    kernel: Kernel
    single: bool
    wide: bool
    d: int
    room: int
    square: Reals
    own: Floats
    among: Reals
    dense: Reals
    starts: Ints
    features: Indices
    values: Reals
    every_start: Ints
    every_feature: Indices
    spread: Reals
    heads: Indices
    index_rows: Indices
    index_values: Reals
    def __init__(
        self, kernel: Kernel, d: int, dtype: DTypeLike, room: int, wide: bool, predicts: bool = ...
    ) -> None: ...
    def arrays(self) -> list[AnyArray]: ...
    def set_nonzeros(self, features: Indices, values: Reals) -> None: ...
    def make_matrix(self) -> None: ...
    def make_room(self, entries: int) -> None: ...

class BatchRows:
    n: int
    d: int
    sparse: bool
    def __init__(self, X: Matrix, dtype: DTypeLike) -> None: ...
