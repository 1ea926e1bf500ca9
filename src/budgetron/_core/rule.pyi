import numpy as np
from numpy.typing import NDArray

from budgetron._core.gaussian import Gaussian
from budgetron._core.history import Average, Journal
from budgetron._core.projection import Projection
from budgetron._core.supports import Supports
from budgetron._util.checks import State

ENTRY_NAMES: dict[str, int]

class Rule:
    args: tuple[object, ...]
    options: dict[str, object]
    ledger: tuple[str, ...]
    budget: int
    divides: bool
    generator: np.random.Generator | None
    projection: Projection | None
    gaussian: Gaussian | None
    average: Average | None
    journal: Journal | None
    departed: Supports | None
    departed_sums: NDArray[np.float64]
    supports: Supports
    coef: NDArray[np.float64]
    tail: NDArray[np.float64]
    values: NDArray[np.float64]
    gram: NDArray[np.float64]
    scratch: NDArray[np.float64]
    factor: float
    norm2: float
    peak: float
    damage_sum: float
    rounds: int
    mistakes: int
    def __getstate__(self) -> State: ...
    def __setstate__(self, state: State) -> None: ...
    def __init__(
        self,
        budget: int = ...,
        *,
        ledger: tuple[str, ...] = ...,
        tail: bool = ...,
        gram: bool = ...,
        projection: bool = ...,
        generator: np.random.Generator | None = ...,
        divides: bool = ...,
        norm: bool = ...,
    ) -> None: ...
    def state(self) -> State: ...
    def check_own_state(self, state: State, capacity: int) -> State: ...
    def set_round_count(self, rounds: int) -> None: ...
    def add_features(self, d: int) -> None: ...
    def mirror(self) -> None: ...
    def set_budget(self, budget: int) -> None: ...
    def truncate(self, budget: int) -> None: ...
    def capacity(self) -> int: ...
    def attach(self, supports: Supports) -> None: ...
    def reserve(self, capacity: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[np.float64]]: ...
    def exchange(self) -> NDArray[np.intp] | None: ...
    def coefficients(self) -> NDArray[np.float64]: ...
    def refresh_norm(self) -> None: ...
    def keep_average(self) -> None: ...
    def keep_journal(self) -> None: ...
    def make_departed(self) -> None: ...
