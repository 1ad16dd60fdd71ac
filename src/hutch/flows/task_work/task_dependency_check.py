"""Dependencies of a task: an agent begins only when all tasks before it are done."""

from collections.abc import Mapping, Sequence

from hutch.domain.task import ENDED_STATES, Task
from hutch.store.tasks import Tasks

MAX_NAMED = 5  # tasks in a reason


async def waiting_reason(tasks: Tasks, task: Task) -> str:
    """The reason why a task must wait; empty when it may begin."""
    if task.fields.state == "blocked":
        return "waits until the task is no longer blocked"
    if not task.fields.depends_on:
        return ""
    return waits_for(task, await tasks.of_repository(task.repository))


def waits_for(task: Task, of_repository: Sequence[Task]) -> str:
    """The dependencies that a task waits for, in words. An archived task holds nothing up."""
    by_key = {each.key: each for each in of_repository}
    if loop := _loop(task.key, by_key):
        return f"never begins: {' → '.join(loop)} depend on each other. Remove one of the dependencies."
    missing = [key for key in task.fields.depends_on if key not in by_key]
    open_ = [
        each
        for key in task.fields.depends_on
        if (each := by_key.get(key)) and not each.archived and each.fields.state not in ENDED_STATES
    ]
    named = [f"{each.key} ({each.fields.state})" for each in open_]
    named += [f"{key} (which does not exist)" for key in missing]
    if not named:
        return ""
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    return f"waits for {', '.join(named[:MAX_NAMED])}{more}"


def _loop(key: str, by_key: Mapping[str, Task]) -> list[str]:
    """A chain of open tasks that leads from a task back to itself; empty if there is none."""
    stack, seen = [[key]], set[str]()
    while stack:
        path = stack.pop()
        task = by_key.get(path[-1])
        if task is None or task.archived or task.fields.state in ENDED_STATES:
            continue
        for before in task.fields.depends_on:
            if before == key:
                return [*path, key]
            if before not in seen:
                seen.add(before)
                stack.append([*path, before])
    return []
