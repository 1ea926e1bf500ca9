from typing import final

from budgetron._core.rounds import Learner
from budgetron._core.rows import BatchRows
from budgetron._core.rule import Rule
from budgetron._util.types import Floats, Ints

@final
class Batch:
    def __init__(
        self,
        learner: Learner,
        rule: Rule,
        rows: BatchRows,
        y: Floats,
        importances: Floats | None,
        margins: Floats | None,
        sizes: Ints | None,
        ledger: Floats | None,
        threads: int,
    ) -> None: ...
