from budgetron._core.rows import Block
from budgetron._core.supports import Supports
from budgetron._util.types import AnyArray, Floats

class SingleRound:
    block: Block
    supports: Supports
    row: AnyArray
    values: AnyArray
    wide: Floats
    def __init__(self, supports: Supports) -> None: ...
    def arrays(self) -> list[AnyArray]: ...

def is_finite(x: object) -> bool: ...
