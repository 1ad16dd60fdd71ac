"""Tasks as text for a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hutch.domain.task import Task, TaskEvent
from hutch.system.terminal_text import printable, visible


def task_line(task: Task) -> str:
    """One line: key, state, title, owner, labels."""
    fields = task.fields
    more = [
        *([f"@{fields.owner}"] if fields.owner else []),
        *(f"#{label}" for label in fields.labels),
        *([f"({fields.priority})"] if fields.priority else []),
    ]
    return printable(" ".join((f"{task.key:<8} {fields.state:<9} {fields.title}", *more)))


def task_page(task: Task, history: Sequence[TaskEvent]) -> str:
    """A task with all its fields, and what happened to it."""
    fields = task.fields
    shown = {
        "Repository": task.repository,
        "Milestone": fields.milestone,
        "Estimate": fields.estimate,
        "After": ", ".join(fields.depends_on),
        "Links": ", ".join(f"{link.kind} {link.target}" for link in task.links),
        "Archived": "yes" if task.archived else "",
    }
    lines = [task_line(task), *(printable(f"  {name}: {value}") for name, value in shown.items() if value)]
    lines += [printable(f"  [{'x' if each.done else ' '}] {each.text}") for each in fields.criteria]
    if task.description:
        lines += ["", visible(task.description, lines=True)]
    lines += ["", *map(_event_line, history)]
    return "\n".join(lines)


def _event_line(event: TaskEvent) -> str:
    at = datetime.fromtimestamp(event.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    changed = "; ".join(f"{name}: {old!r} -> {new!r}" for name, (old, new) in event.changes.items())
    details = " ".join(part for part in (changed, event.note) if part)
    return printable(f"  {at} {event.kind} {details}".rstrip())
