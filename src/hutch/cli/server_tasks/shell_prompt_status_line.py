"""One line for a shell prompt: open tasks of mine, sessions that wait for me, changes that are not sent.

It reads two small files and the names of a directory, and asks no server.
"""

import json

from hutch.cli.local_only_notice import other_server
from hutch.cli.server_tasks.task_copy_and_outbox import TaskCopy
from hutch.settings import find_paths
from hutch.system.clock_without_jumps import wall_ms

OLD_MS = 86_400_000  # an older copy says its age


def prompt_line(*, as_json: bool = False) -> str:
    """Empty without a login, and when there is nothing to do."""
    address = other_server()
    if address is None:
        return "{}" if as_json else ""
    copy = TaskCopy(find_paths(), address)
    summary, unsent = copy.summary(), copy.count()
    if as_json:
        return json.dumps(
            {
                "tasks": summary["mine"],
                "waiting": summary["waiting"],
                "unsent": unsent,
                "at_ms": summary["at_ms"],
            }
        )
    days = (wall_ms() - summary["at_ms"]) // OLD_MS if summary["at_ms"] else 0
    parts = (
        (summary["mine"], "task" if summary["mine"] == 1 else "tasks"),
        (summary["waiting"], "waits" if summary["waiting"] == 1 else "wait"),
        (unsent, "unsent"),
        (days, "d old"),
    )
    return " · ".join(f"{count} {name}" for count, name in parts if count)
