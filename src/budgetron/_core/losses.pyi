LOSSES: tuple[str, str, str]
