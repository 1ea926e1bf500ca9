from budgetron._core.gaussian import Gaussian
from budgetron._core.projection import Projection

class GaussianRound:
    gaussian: Gaussian
    def __init__(self, gaussian: Gaussian) -> None: ...

class GaussianBlock(GaussianRound):
    projection: Projection
    room: int
    def __init__(self, gaussian: Gaussian, projection: Projection, room: int) -> None: ...
