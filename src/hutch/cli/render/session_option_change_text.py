"""Changes of a session's options, as text."""

from collections.abc import Iterable, Mapping
from typing import Any

from hutch.system.terminal_safe_text import one_line

UNSET = "default"


def change_lines(event: Mapping[str, Any]) -> list[str]:
    """The lines of a `session.changed` event: `persona: engineer → reviewer`."""
    return [
        f"{_value(each.get('name'))}: {_value(each.get('before'))} → {_value(each.get('after'))}"
        for each in event.get("changes", ())
    ]


def waiting_lines(changed: Mapping[str, Any]) -> list[str]:
    """A note about limits that the open jail could not take."""
    names = ", ".join(changed.get("waiting") or ())
    return [f"{names}: applies with the session's next jail. Pause and resume it for that."] if names else []


def named_values(values: Mapping[str, Any]) -> str:
    """Options that are set: `temperature 0.2, effort high`."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)


def limit_text(limits: Iterable[Mapping[str, Any]]) -> str:
    """The limits in force that are not defaults, with where they come from."""
    return ", ".join(
        f"{each['name']} {each['value']} ({each['source']})" for each in limits if each["source"] != "default"
    )


def _value(value: Any) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return one_line(str(value), 200) if value not in (None, "") else UNSET


def jail_variables(session: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows about the variables of a session's jail, and the names of its secrets."""
    variables = session.get("variables") or {}
    pairs = ", ".join(f"{name}={value}" for name, value in variables.items())
    return [("variables", pairs), ("secrets", ", ".join(session.get("secrets") or ()))]
