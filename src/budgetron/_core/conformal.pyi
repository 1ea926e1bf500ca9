from budgetron._util.types import Floats, Ints

def limits(
    own: Floats,
    sizes: Floats,
    tie: float,
    aim: float,
    step: float,
    ring: Floats,
    ordered: Floats,
    counts: Ints,
) -> Floats: ...
def intervals(
    predictions: Floats,
    scales: Floats,
    targets: Floats,
    tie: float,
    aim: float,
    step: float,
    ring: Floats,
    ordered: Floats,
    counts: Ints,
) -> Floats: ...
def next_threshold(ordered: Floats, counts: Ints, aim: float, step: float) -> float: ...
def next_limits(q: float, sizes: Floats, tie: float) -> Floats: ...
def next_intervals(q: float, predictions: Floats, scales: Floats, tie: float) -> Floats: ...
