import numpy as np
from numpy.typing import NDArray

from budgetron._core.rule import Rule

class SpanRule(Rule):
    inverse: NDArray[np.float64]
    direction: NDArray[np.float64]
    def __init__(
        self,
        budget: int = ...,
        *,
        inverse: bool = ...,
        full_rank: bool = ...,
        ledger: tuple[str, ...] = ...,
        gram: bool = ...,
        generator: np.random.Generator | None = ...,
        divides: bool = ...,
    ) -> None: ...
