from budgetron._core.rows import Block
from budgetron._core.supports import Supports

class SingleRound:
    block: Block
    supports: Supports
    def __init__(self, supports: Supports) -> None: ...
    @property
    def nbytes(self) -> int: ...
