"""The limits of a session's commands, and where each comes from.

A session asks for values; else the settings decide. The repository's settings and the caps on
members only lower them.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from hutch.domain.session_jail_resource_limits import Resources
from hutch.system.lazy_dataclass import dataclass

MIN_FILE_BYTES = 2 * 1024**3  # of the largest file, unless a limit for it is set
NAMES = tuple(each.name for each in fields(Resources))


@dataclass(frozen=True, slots=True)
class EffectiveLimit:
    """A limit in force."""

    name: str
    value: int | float | None  # None: no limit
    source: str  # `session`, `repository`, `default`, or the name of a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSources:
    """The sources of limits for the sessions of one workspace: values of the settings, by name."""

    jail: Mapping[str, Any]
    members: Mapping[str, Any]
    is_set: Callable[[str], bool]  # whether a value of `jail` is not the default
    repository: Mapping[str, Any]  # where it sets a lower one

    def effective(self, asked: Resources, *, is_capped: bool) -> tuple[EffectiveLimit, ...]:
        """The limits of a session; `is_capped`: its owner is a member."""
        found: dict[str, EffectiveLimit] = {}
        for name in NAMES:
            value, source = self.jail[name], f"jail.{name}" if self.is_set(name) else "default"
            if (own := getattr(asked, name)) is not None:
                value, source = own, "session"
            if name == "file_bytes" and value is None:
                value = max(MIN_FILE_BYTES, found["workspace_growth_bytes"].value or 0)
            if name in self.repository:
                value, source = _lower(value, source, self.repository[name], "repository")
            if is_capped and (cap := _cap(name, self.jail, self.members)) is not None:
                section = "jail" if self.members[name] is None else "members"
                value, source = _lower(value, source, cap, f"{section}.{name}")
            found[name] = EffectiveLimit(name, value, source)
        return tuple(found.values())


def capped_resources(jail: Mapping[str, Any], members: Mapping[str, Any]) -> Resources:
    """The most that members may ask for."""
    return Resources(**{name: _cap(name, jail, members) for name in NAMES})


def _cap(name: str, jail: Mapping[str, Any], members: Mapping[str, Any]) -> Any:
    return jail[name] if members[name] is None else members[name]


def _lower(value: Any, source: str, cap: Any, cap_source: str) -> tuple[Any, str]:
    return (cap, cap_source) if value is None or cap < value else (value, source)
