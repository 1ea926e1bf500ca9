from typing import Self

class Crew:
    most: int
    workers: int
    def __new__(cls, most: int) -> Self: ...
