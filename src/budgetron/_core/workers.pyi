from typing import Self

class Workers:
    limit: int
    count: int
    def __new__(cls, limit: int) -> Self: ...
