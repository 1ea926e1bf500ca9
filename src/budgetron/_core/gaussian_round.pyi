from budgetron._core.gaussian import Gaussian
from budgetron._core.projection import Projection

class GaussianRound:
    gaussian: Gaussian
    keep: float
    def __init__(self, gaussian: Gaussian, keep: float) -> None: ...

class GaussianBlock(GaussianRound):
    projection: Projection
    room: int
    def __init__(self, gaussian: Gaussian, keep: float, projection: Projection, room: int) -> None: ...
