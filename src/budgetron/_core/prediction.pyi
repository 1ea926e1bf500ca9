from budgetron._core.rule import Rule
from budgetron._core.supports import Supports
from budgetron._util.types import Floats, Matrix

def sums(
    supports: Supports,
    X: Matrix,
    coef: Floats,
    threads: int = ...,
    rule: Rule | None = ...,
) -> Floats: ...
def values(supports: Supports, X: Matrix, threads: int = ...) -> Floats: ...
