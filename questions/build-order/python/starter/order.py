"""Orders the tasks of a build by what they need."""


def build_order(tasks: dict[str, list[str]]) -> list[str]:
    """All tasks, each after those that it needs; of several that could be next, the alphabetically first."""
    raise NotImplementedError


def build_waves(tasks: dict[str, list[str]]) -> list[list[str]]:
    """All tasks in waves: those of a wave need only tasks of earlier waves."""
    raise NotImplementedError
