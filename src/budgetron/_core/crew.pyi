class Crew:
    most: int
    workers: int
    def __init__(self, most: int) -> None: ...
