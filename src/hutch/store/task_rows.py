"""Tasks, their events and links, to and from rows of the database."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from hutch.domain.task import AcceptanceCriterion, Task, TaskEvent, TaskEventKind, TaskFields, TaskLink
from hutch.store.task_tables import task_links
from hutch.system.clock_without_jumps import wall_ms

LISTS = ("labels", "depends_on", "criteria")
FIELDS = tuple(field.name for field in fields(TaskFields))
# Columns beside the fields that a TASKS.md can express.
OWN = (
    "id",
    "repository",
    "address",
    "key",
    "description",
    "created_by",
    "revision",
    "created_ms",
    "updated_ms",
    "archived",
)
BATCH = 500  # ids in one statement


def task_differences(old: Task, new: Task) -> dict[str, tuple[Any, Any]]:
    before, after = (
        {**_values(task.fields), "description": task.description, "archived": task.archived, "key": task.key}
        for task in (old, new)
    )
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def _values(task: TaskFields) -> dict[str, Any]:
    values = {name: getattr(task, name) for name in FIELDS}
    return values | {"criteria": [asdict(each) for each in task.criteria]}


def task_row(task: Task) -> dict[str, Any]:
    values = _values(task.fields)
    return {
        **values,
        **{name: to_json_text(values[name]) for name in LISTS},
        **{name: getattr(task, name) for name in OWN},
    }


def task_from_row(row: Mapping[str, Any], links: tuple[TaskLink, ...]) -> Task:
    values = {name: row[name] for name in FIELDS}
    values["labels"] = _names(row["labels"])
    values["depends_on"] = _names(row["depends_on"])
    values["criteria"] = _criteria(row["criteria"])
    return Task(
        fields=TaskFields(**values),
        links=links,
        **{name: row[name] for name in OWN},
    )


@lru_cache(maxsize=1024)  # tasks of one repository share most of them
def _names(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


@lru_cache(maxsize=1024)
def _criteria(text: str) -> tuple[AcceptanceCriterion, ...]:
    return tuple(AcceptanceCriterion(each["text"], each["done"]) for each in json.loads(text))


def links_of_tasks(connection: Connection, ids: Sequence[str]) -> dict[str, list[TaskLink]]:
    found: dict[str, list[TaskLink]] = {}
    for start in range(0, len(ids), BATCH):
        statement = select(task_links).where(task_links.c.task_id.in_(ids[start : start + BATCH]))
        for row in connection.execute(statement.order_by(task_links.c.at_ms)).mappings():
            found.setdefault(row["task_id"], []).append(TaskLink(row["kind"], row["target"]))
    return found


def history_row(
    task_id: str, kind: TaskEventKind, revision: int, by: str, note: str, changes: Mapping[str, Any]
) -> dict[str, Any]:
    row = {"task_id": task_id, "kind": kind, "revision": revision, "by": by, "note": note}
    return {**row, "changes": to_json_text(changes), "at_ms": wall_ms()}


def event_from_row(row: RowMapping) -> TaskEvent:
    names: Iterable[str] = ("task_id", "kind", "revision", "by", "by_name", "at_ms", "note")
    changes = {name: (old, new) for name, (old, new) in json.loads(row["changes"]).items()}
    return TaskEvent(id=row["position"], changes=changes, **{name: row[name] for name in names})


def to_json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
