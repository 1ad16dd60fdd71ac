"""Orders the tasks of a build by what they need."""

import heapq


def build_order(tasks: dict[str, list[str]]) -> list[str]:
    """All tasks, each after those that it needs; of several that could be next, the alphabetically first."""
    open_needs, users = graph_of(tasks)
    ready = [name for name, count in open_needs.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        name = heapq.heappop(ready)
        order.append(name)
        for user in release(name, open_needs, users):
            heapq.heappush(ready, user)
    check_complete(order, tasks)
    return order


def build_waves(tasks: dict[str, list[str]]) -> list[list[str]]:
    """All tasks in waves: those of a wave need only tasks of earlier waves."""
    open_needs, users = graph_of(tasks)
    waves = []
    wave = sorted(name for name, count in open_needs.items() if count == 0)
    while wave:
        waves.append(wave)
        wave = sorted(user for name in wave for user in release(name, open_needs, users))
    check_complete([name for wave in waves for name in wave], tasks)
    return waves


def graph_of(tasks: dict[str, list[str]]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """For each task the number of its needs, and the tasks that need it."""
    open_needs: dict[str, int] = {}
    users: dict[str, list[str]] = {name: [] for name in tasks}
    for name, needs in tasks.items():
        distinct = set(needs)
        open_needs[name] = len(distinct)
        for need in distinct:
            if need not in tasks:
                raise ValueError(f"{name!r} needs {need!r}, which is not a task")
            users[need].append(name)
    return open_needs, users


def release(name: str, open_needs: dict[str, int], users: dict[str, list[str]]) -> list[str]:
    """Count a task as done; returns those that need nothing else."""
    ready = []
    for user in users[name]:
        open_needs[user] -= 1
        if open_needs[user] == 0:
            ready.append(user)
    return ready


def check_complete(done: list[str], tasks: dict[str, list[str]]) -> None:
    """Raise an error that shows a circle, if some tasks could not be done."""
    left = tasks.keys() - set(done)
    if not left:
        return
    path = [min(left)]
    while path[-1] not in path[:-1]:
        path.append(min(need for need in tasks[path[-1]] if need in left))
    circle = path[path.index(path[-1]) :]
    raise ValueError(f"tasks need each other in a circle: {' -> '.join(circle)}")
