"""Erases a user from tasks: the comments and progress lines that they wrote, and their name as an owner.

Tasks themselves belong to the team. Their private ones, without a repository, are deleted.
"""

import json

from sqlalchemy import Connection, delete, select, update

from hutch.store.task_tables import task_assignments, task_history, task_links, tasks

ERASED = "(erased)"


def erase_from_tasks(connection: Connection, user_id: str, name: str) -> None:
    """Erase a user; it can be repeated."""
    private = select(tasks.c.id).where(tasks.c.repository == "", tasks.c.created_by == user_id)
    for table in (task_history, task_links, task_assignments):
        connection.execute(delete(table).where(table.c.task_id.in_(private)))
    connection.execute(delete(tasks).where(tasks.c.repository == "", tasks.c.created_by == user_id))
    said = task_history.c.kind.in_(("comment", "progress"))
    connection.execute(update(task_history).where(task_history.c.by == user_id, said).values(note=ERASED))
    if not name:
        return
    connection.execute(
        update(tasks).where(tasks.c.owner == name).values(owner="", revision=tasks.c.revision + 1)
    )
    mentioned = task_history.c.changes.contains(json.dumps(name, ensure_ascii=False), autoescape=True)
    for row in connection.execute(select(task_history).where(mentioned)).mappings().all():
        changes = json.loads(row["changes"])
        if "owner" in changes:
            changes["owner"] = [ERASED if each == name else each for each in changes["owner"]]
            here = task_history.c.position == row["position"]
            values = {"changes": json.dumps(changes, ensure_ascii=False)}
            connection.execute(update(task_history).where(here).values(values))
