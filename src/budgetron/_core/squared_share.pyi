from numpy import uint8
from numpy.typing import NDArray

from budgetron._util.types import Floats

def lead(
    predictions: Floats, active: NDArray[uint8], y: Floats, keep: float, recent: Floats, out: Floats
) -> None: ...
def current_leader(active: NDArray[uint8], recent: Floats) -> int: ...
def share(
    predictions: Floats,
    y: Floats,
    prior: Floats,
    a: float,
    importances: Floats,
    weights: Floats,
    reach: Floats,
    out: Floats,
    losses: Floats,
) -> None: ...
def combined(predictions: Floats, weights: Floats, reach: Floats, out: Floats) -> None: ...
def intervals(
    predictions: Floats,
    y: Floats,
    level: float,
    rate: float,
    keep: float,
    scores: Floats,
    ordered: Floats,
    state: Floats,
    out: Floats,
) -> None: ...
def next_intervals(predictions: Floats, ordered: Floats, state: Floats, out: Floats) -> None: ...
