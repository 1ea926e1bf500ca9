from budgetron._core.kernel_fleet import KernelFleet
from budgetron._core.key_index import KeyIndex
from budgetron._core.rounds import Learner

class PooledFleet(KernelFleet):
    index: KeyIndex
    memory: int
    evicted: int
    random: int
    def __init__(
        self, learner: Learner, idle: int, page: int, index: KeyIndex, memory: int, seed: int
    ) -> None: ...
    @property
    def least_memory(self) -> int: ...
    def bytes_of_keys(self, n: int, text_bytes: int) -> int: ...
