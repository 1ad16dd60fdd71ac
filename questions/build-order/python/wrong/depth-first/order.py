"""Orders by depth first: needs come first, but ties are not alphabetical among all ready tasks."""


def graph_of(tasks):
    """For each task the number of its needs, and the tasks that need it."""
    open_needs, users = {}, {name: [] for name in tasks}
    for name, needs in tasks.items():
        distinct = set(needs)
        open_needs[name] = len(distinct)
        for need in distinct:
            if need not in tasks:
                raise ValueError(f"{name!r} needs {need!r}, which is not a task")
            users[need].append(name)
    return open_needs, users


def build_order(tasks):
    graph_of(tasks)
    order, state = [], {}

    def visit(name):
        if state.get(name) == "done":
            return
        if state.get(name) == "open":
            raise ValueError("tasks need each other in a circle")
        state[name] = "open"
        for need in sorted(tasks[name]):
            visit(need)
        state[name] = "done"
        order.append(name)

    for name in sorted(tasks):
        visit(name)
    return order


def build_waves(tasks):
    open_needs, users = graph_of(tasks)
    waves, wave = [], sorted(name for name, count in open_needs.items() if count == 0)
    while wave:
        waves.append(wave)
        following = []
        for name in wave:
            for user in users[name]:
                open_needs[user] -= 1
                if open_needs[user] == 0:
                    following.append(user)
        wave = sorted(following)
    if sum(map(len, waves)) < len(tasks):
        raise ValueError("tasks need each other in a circle")
    return waves
