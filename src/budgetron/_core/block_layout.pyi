from typing import Self

from budgetron._core.rule import Rule
from budgetron._core.supports import Supports

MOST_ROUNDS: int
MOST_BUDGET: int

def capacities_for(budget: int) -> list[int]: ...

class BlockLayout:
    classes: int
    block_bytes: list[int]
    def __new__(cls, supports: Supports, rule: Rule) -> Self: ...
    @property
    def support_bytes(self) -> int: ...
