from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron._util.types import Floats

RATES: tuple[float, ...]

class Combination:
    n_experts: int
    n_combiners: int
    outputs: int
    features: int
    keeps: tuple[float, ...]
    eta: float
    alpha: float
    recency: bool
    weights: Floats
    sigma: Floats
    recent: Floats
    shares: Floats
    losses: Floats
    def __init__(
        self,
        n_experts: int,
        outputs: int,
        keeps: tuple[float, ...] = ...,
        eta: float = ...,
        alpha: float = ...,
        recency: bool = ...,
    ) -> None: ...
    def set_arrays(self, arrays: dict[str, Any]) -> None: ...
    def arrays(self) -> dict[str, Floats]: ...
    @property
    def nbytes(self) -> int: ...
    def add_output(self, place: int) -> None: ...
    def reset(self, expert: int, variance: float = ...) -> None: ...
    def transfer_weight(self, source: int, target: int) -> None: ...
    def learn(
        self,
        scores: Floats,
        active: NDArray[np.bool_],
        labels: Floats,
        margins: Floats,
        importances: Floats | None = ...,
        ledger: Floats | None = ...,
    ) -> NDArray[np.int64]: ...
    def decide(self, scores: Floats, active: NDArray[np.bool_], margins: Floats, next_row: bool) -> None: ...
