from budgetron._util.checks import State
from budgetron._util.types import AnyArray, Floats, Ints

class Average:
    lag: Floats
    elapsed: float
    norm2: float
    own: float
    limit: int
    residual: float
    def __init__(self, n: int, limit: int = ...) -> None: ...
    def reserve(self, n: int, rows: int = ...) -> None: ...
    def state(self) -> State: ...
    def __setstate__(self, state: State) -> None: ...
    def total(self, weights: Floats) -> Floats: ...

class Journal:
    n: int
    size: int
    steps: int
    rounds: Ints
    ends: Ints
    places: Ints
    factor_rounds: Ints
    factors: Floats
    scales: Floats
    deltas: Floats
    def state(self) -> State: ...
    def __setstate__(self, state: State) -> None: ...
    def arrays(self) -> dict[str, AnyArray]: ...
