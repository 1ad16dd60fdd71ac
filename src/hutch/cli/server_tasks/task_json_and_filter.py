"""Tasks as JSON of the API, as values, and as a filter finds them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hutch.domain.task import NOBODY, AcceptanceCriterion, Task, TaskEvent, TaskFields, TaskFilter, TaskLink

TUPLES = ("labels", "depends_on")


def task_from_json(found: Mapping[str, Any]) -> Task:
    # A newer server may have more fields.
    fields = {name: value for name, value in found["fields"].items() if name in TaskFields.__annotations__}
    return Task(
        id=found["id"],
        repository=found["repository"],
        key=found["key"],
        fields=TaskFields(**{name: _field(name, value) for name, value in fields.items()}),
        description=found["description"],
        links=tuple(TaskLink(each["kind"], each["target"]) for each in found["links"]),
        revision=found["revision"],
        archived=found["archived"],
        created_by=found["created_by"],
        created_ms=found["created_ms"],
        updated_ms=found["updated_ms"],
    )


def event_from_json(found: Mapping[str, Any]) -> TaskEvent:
    known = {name: value for name, value in found.items() if name in TaskEvent.__annotations__}
    changes = {name: (old, new) for name, (old, new) in found["changes"].items()}
    return TaskEvent(**{**known, "changes": changes})


def value_of(task: Task, field: str) -> Any:
    """A field of a task as JSON."""
    if field in ("description", "archived", "address"):
        return getattr(task, field)
    value = getattr(task.fields, field)
    if field == "criteria":
        return [{"text": each.text, "done": each.done} for each in value]
    return list(value) if field in TUPLES else value


def with_values(task: Task, values: Mapping[str, Any]) -> Task:
    """The task as it will be when these values are stored."""
    own = {name: value for name, value in values.items() if name in ("description", "archived", "address")}
    fields = {name: _field(name, value) for name, value in values.items() if name not in own}
    return replace(task, fields=replace(task.fields, **fields), **own)


def _field(name: str, value: Any) -> Any:
    if name == "criteria":
        return tuple(AcceptanceCriterion(each["text"], each["done"]) for each in value)
    return tuple(value) if name in TUPLES else value


def matches(task: Task, which: TaskFilter) -> bool:
    """True if a filter finds the task; as the server decides."""
    fields = task.fields
    text = f"{task.key}\n{fields.title}\n{task.description}".lower()
    return (
        task.archived == which.archived
        and which.repository in ("", task.repository)
        and (not which.states or fields.state in which.states)
        and which.owner in ("", fields.owner or NOBODY)
        and which.milestone in ("", fields.milestone)
        and which.priority in ("", fields.priority)
        and (not which.label or which.label in fields.labels)
        and which.text.lower() in text
    )


def merged(
    before: Mapping[str, Any], mine: Mapping[str, Any], theirs: Task
) -> tuple[dict[str, Any], list[str]]:
    """Values to store over a newer revision, and the fields that both sides changed differently."""
    values: dict[str, Any] = {}
    conflicts = []
    for name, wanted in mine.items():
        old, now = before.get(name), value_of(theirs, name)
        if name == "criteria":
            wanted = _merged_criteria(old or [], wanted, now)
        elif name in TUPLES:
            kept = [each for each in now if each in wanted or each not in (old or [])]
            wanted = sorted({*kept, *(each for each in wanted if each not in (old or []))})
        elif now not in (old, wanted) and wanted != old:
            conflicts.append(name)
        if wanted != now:
            values[name] = wanted
    return values, conflicts


def _merged_criteria(
    old: Sequence[Mapping[str, Any]], mine: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> list[Any]:
    """Their list, with what was ticked, added and removed here."""
    was, wanted, there = ({each["text"]: each["done"] for each in side} for side in (old, mine, now))
    kept = {
        text: wanted[text] if text in wanted and wanted[text] != was.get(text) else done
        for text, done in there.items()
        if text in wanted or text not in was
    }
    added = {text: done for text, done in wanted.items() if text not in was and text not in there}
    return [{"text": text, "done": done} for text, done in (kept | added).items()]
