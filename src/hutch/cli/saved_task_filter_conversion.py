"""Saved filters of tasks, as they are stored and sent."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.one_line_text import check_line, echo
from hutch.domain.task import MAX_NAME_CHARS, TaskFilter

FIELDS = ("repository", "states", "owner", "label", "milestone", "priority", "text", "archived")


def check_filter_name(name: str) -> None:
    check_line("The name of a filter", name)
    if "/" in name or len(name) > MAX_NAME_CHARS:
        raise BadRequest(f"The name of a filter has at most {MAX_NAME_CHARS} characters, and no '/'.")


def query_of(which: TaskFilter) -> dict[str, Any]:
    query = {field: value for field, value in asdict(which).items() if field in FIELDS}
    return {**query, "states": list(which.states)}


def filter_of(query: Mapping[str, Any]) -> TaskFilter:
    values = {name: value for name, value in query.items() if name in FIELDS}
    return TaskFilter(**{**values, "states": tuple(values.get("states", ()))})


def named_filter(filters: Mapping[str, TaskFilter], name: str) -> TaskFilter:
    if name not in filters:
        known = f"These are: {', '.join(filters)}." if filters else "Save one: hutch tasks list --save NAME"
        raise NotFound(f"You have no filter {echo(name)}. {known}")
    return filters[name]
