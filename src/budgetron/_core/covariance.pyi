from budgetron._util.checks import State
from budgetron._util.types import AnyArray, Floats

class Covariance:
    d: int
    prior: float
    direction: Floats
    def __init__(self, d: int, prior: float = ...) -> None: ...
    def arrays(self) -> dict[str, AnyArray]: ...
    def state(self) -> State: ...
    def add_features(self, d: int) -> None: ...
    def __setstate__(self, state: State) -> None: ...
    def matrix(self) -> Floats: ...

class FactoredCovariance(Covariance):
    columns: Floats
    variances: Floats
    projections: Floats

class ForgettingCovariance(Covariance):
    reductions: Floats
    factor: float
