"""Tasks from and to a folder of Backlog.md: one file per task, with YAML front matter.

backlog/tasks/task-12 - Fix-login.md
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from hutch.domain.errors import BadRequest
from hutch.domain.task import (
    MAX_DESCRIPTION_CHARS,
    TASK_PRIORITIES,
    AcceptanceCriterion,
    Task,
    TaskFields,
    TaskState,
    check_key,
    heading_state,
    task_fields,
)
from hutch.system.lazy_dataclass import dataclass

FOLDER = "backlog"
MAX_FILE_CHARS = 1 << 20
MAX_SLUG_CHARS = 60
ARCHIVES = ("archive/tasks", "archive", "completed")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?\r?\n)---[ \t]*(?:\r?\n|$)", re.DOTALL)
_CRITERIA = re.compile(
    r"(?:^## Acceptance Criteria[ \t]*\n+)?^<!-- AC:BEGIN -->[ \t]*\n(.*?)^<!-- AC:END -->[ \t]*\n?",
    re.DOTALL | re.MULTILINE,
)
_BOX = re.compile(r"[ \t]*[-*+][ \t]+\[([ xX])\][ \t]+(?:#\d+[ \t]+)?(.+?)[ \t]*$", re.MULTILINE)
_DESCRIPTION_HEADING = re.compile(r"\A\s*## Description[ \t]*\n+")
_SECTION_MARK = re.compile(r"^<!-- SECTION:[A-Z_]+:(?:BEGIN|END) -->[ \t]*\n?", re.MULTILINE)
_NOT_IN_SLUG = re.compile(r"[^\w.]+")
_STATUS: dict[TaskState, str] = {
    "todo": "To Do",
    "doing": "In Progress",
    "review": "In Review",
    "blocked": "Blocked",
    "done": "Done",
    "cancelled": "Cancelled",
}


@dataclass(frozen=True, slots=True)
class BacklogTask:
    """A task of a folder."""

    key: str
    fields: TaskFields
    description: str = ""
    archived: bool = False


@dataclass(frozen=True, slots=True)
class BacklogImport:
    """The tasks of a folder, and why other files of it are none."""

    tasks: tuple[BacklogTask, ...]
    problems: tuple[str, ...]


def read_backlog(files: Mapping[str, str]) -> BacklogImport:
    """The tasks of files, by their path in the folder. A file that is no task is reported and left out."""
    tasks: dict[str, BacklogTask] = {}
    problems = []
    for path, text in sorted(files.items()):
        try:
            task = _read(path, text)
        except BadRequest as error:
            problems.append(f"{path}: {error}")
            continue
        if task.key in tasks:
            problems.append(f"{path}: another file has the task {task.key} already.")
        else:
            tasks[task.key] = task
    return BacklogImport(tuple(tasks.values()), tuple(problems))


def _read(path: str, text: str) -> BacklogTask:
    if len(text) > MAX_FILE_CHARS:
        raise BadRequest(f"It has more than {MAX_FILE_CHARS:,} characters.")
    found = _FRONT_MATTER.match(text)
    if not found:
        raise BadRequest("It does not begin with front matter (---).")
    try:
        head = yaml.safe_load(found[1])
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadRequest(f"Its front matter is not YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(head, dict):
        raise BadRequest("Its front matter has no fields.")
    body = text[found.end() :].replace("\r\n", "\n")
    criteria = [
        AcceptanceCriterion(criterion, mark in "xX")
        for block in _CRITERIA.findall(body)
        for mark, criterion in _BOX.findall(block)
    ]
    description = _SECTION_MARK.sub("", _CRITERIA.sub("", body))
    description = _DESCRIPTION_HEADING.sub("", description).strip("\n")
    if len(description) > MAX_DESCRIPTION_CHARS:
        raise BadRequest(f"Its text has more than {MAX_DESCRIPTION_CHARS:,} characters.")
    priority = _text(head, "priority").lower()
    fields = task_fields(
        title=_text(head, "title"),
        state=heading_state(_text(head, "status")) or "todo",
        owner=next((name.removeprefix("@") for name in _texts(head, "assignee")), ""),
        priority=priority if priority in TASK_PRIORITIES else "",
        estimate=_text(head, "estimate"),
        milestone=_text(head, "milestone"),
        labels=[label.strip().replace(" ", "-") for label in _texts(head, "labels")],
        depends_on=[_key(each) for each in _texts(head, "dependencies")],
        criteria=criteria,
    )
    archived = path.removeprefix(f"{FOLDER}/").startswith(ARCHIVES)
    return BacklogTask(_key(_text(head, "id")), fields, description, archived)


def _key(id: str) -> str:
    return check_key(id.strip().upper())


def _text(head: Mapping[str, Any], name: str) -> str:
    value = head.get(name)
    return "" if value is None or isinstance(value, list | dict) else str(value)


def _texts(head: Mapping[str, Any], name: str) -> list[str]:
    value = head.get(name)
    values = value if isinstance(value, list) else [value]
    return [str(each) for each in values if each is not None and not isinstance(each, list | dict)]


def write_backlog(tasks: Iterable[Task]) -> dict[str, str]:
    """The files of tasks, by their path in the folder."""
    files = {}
    for task in tasks:
        ended = "completed" if task.fields.state == "done" else "archive/tasks"
        folder = ended if task.archived else "tasks"
        name = task.key.lower().replace("#", "issue-")
        slug = _NOT_IN_SLUG.sub("-", task.fields.title)[:MAX_SLUG_CHARS].strip("-.")
        files[f"{FOLDER}/{folder}/{name} - {slug or 'task'}.md"] = _file_text(task)
    return files


def _file_text(task: Task) -> str:
    fields = task.fields
    head: dict[str, object] = {
        "id": task.key,
        "title": fields.title,
        "status": _STATUS[fields.state],
        "assignee": [f"@{fields.owner}"] if fields.owner else [],
        "labels": list(fields.labels),
        "dependencies": list(fields.depends_on),
        **({"priority": fields.priority} if fields.priority else {}),
        **({"milestone": fields.milestone} if fields.milestone else {}),
        **({"estimate": fields.estimate} if fields.estimate else {}),
    }
    shown = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=10_000)
    parts = [f"---\n{shown}---\n\n## Description\n\n"]
    parts.append(
        f"<!-- SECTION:DESCRIPTION:BEGIN -->\n{task.description}\n<!-- SECTION:DESCRIPTION:END -->\n"
    )
    if fields.criteria:
        boxes = "".join(
            f"- [{'x' if each.done else ' '}] #{number} {each.text}\n"
            for number, each in enumerate(fields.criteria, start=1)
        )
        parts.append(f"\n## Acceptance Criteria\n<!-- AC:BEGIN -->\n{boxes}<!-- AC:END -->\n")
    return "".join(parts)
