"""Tasks as text for a terminal."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from hutch.domain.task import Task, TaskEvent
from hutch.system.terminal_safe_text import printable, visible


def task_line(task: Task, *, with_repository: bool = False) -> str:
    """One line: key, state, title, owner, labels."""
    fields = task.fields
    more = [
        *([f"@{fields.owner}"] if fields.owner else []),
        *(f"#{label}" for label in fields.labels),
        *([f"({fields.priority})"] if fields.priority else []),
        *([f"[{task.repository or 'no repository'}]"] if with_repository else []),
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
    changed = "; ".join(_change_text(name, old, new) for name, (old, new) in event.changes.items())
    details = " ".join(
        part for part in (changed, f"({event.note})" if changed and event.note else event.note) if part
    )
    who = f"{event.by_name} " if event.by_name else ""
    return printable(f"  {at} {who}{event.kind} {details}".rstrip())


def _change_text(name: str, old: Any, new: Any) -> str:
    """Such as `state: doing -> review`, or `criteria: met 'it passes'`."""
    if name == "criteria":
        return f"criteria: {', '.join(_criteria_changes(old or (), new or ())) or 'other order'}"
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        added = [f"+{each}" for each in new if each not in old]
        return f"{name}: {' '.join([*added, *(f'-{each}' for each in old if each not in new)])}"
    if name == "description":
        return "description"
    return f"{name}: {_shown(old)} -> {_shown(new)}"


def _criteria_changes(old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    before = {each["text"]: each["done"] for each in old}
    after = {each["text"]: each["done"] for each in new}
    for text, is_done in after.items():
        if text not in before:
            yield f"added {text!r}"
        if is_done != before.get(text, False):
            yield f"{'met' if is_done else 'no longer met'} {text!r}"
    yield from (f"removed {text!r}" for text in before if text not in after)


def _shown(value: Any) -> str:
    return str(value) if value not in ("", None) else "none"
