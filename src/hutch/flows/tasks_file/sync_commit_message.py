"""The message of a commit that syncs a TASKS.md: it names the tasks whose lines changed."""

import re
from collections.abc import Iterator

from hutch.flows.tasks_file.task_line import read_line

MAX_NAMED = 3
_BOX = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\[(.)\]\s+(.*)")


def sync_message(before: str, after: str) -> str:
    """Such as `Sync TASKS.md: T-1 doing, T-5 done`."""
    named = list(_changed_tasks(before, after))
    more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
    told = f": {', '.join(named[:MAX_NAMED])}{more}" if named else " with the tasks"
    return f"Sync TASKS.md{told}\n"


def _changed_tasks(before: str, after: str) -> Iterator[str]:
    known = set(before.splitlines())
    for line in after.splitlines():
        if line in known or not (found := _BOX.match(line)):
            continue
        task = read_line("", found[1], found[2])
        if task is not None and task.key:
            state = "done" if found[1] in "xX" else task.pairs.get("status", "todo")
            yield f"{task.key} {state}"
