"""The comment of Hutch at the end of a task's line: `<!-- hutch:status=doing rev=3 -->`.

It holds what Markdown cannot show. Values are percent-encoded; pairs with unknown names are kept.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from hutch.domain.one_line_text import is_line
from hutch.domain.task import (
    KEY_PATTERN,
    MAX_NAME_CHARS,
    TASK_PRIORITIES,
    TASK_STATES,
    TaskPriority,
    TaskState,
)

COMMENT = re.compile(r"[ \t]*<!--[ \t]*hutch:(?P<pairs>(?:(?!-->).)*)-->")
_PAIR = re.compile(r"([a-z_]{1,30})=(\S*)")
_KEYS = re.compile(rf"(?:{KEY_PATTERN})(?:,(?:{KEY_PATTERN}))*")
_STATES: dict[str, TaskState] = {each: each for each in TASK_STATES}
_PRIORITIES: dict[str, TaskPriority] = {each: each for each in TASK_PRIORITIES}

Pairs = Mapping[str, str]


def read_pairs(text: str) -> dict[str, str]:
    return {name: unquote(value) for name, value in _PAIR.findall(text)}


def write_comment(pairs: Pairs) -> str:
    """The comment with these pairs; those with an empty value are left out."""
    shown = " ".join(f"{name}={_encode(value)}" for name, value in pairs.items() if value)
    return f"<!-- hutch:{shown} -->" if shown else ""


def _encode(value: str) -> str:
    # Two hyphens end a comment in some readers.
    return quote(value, safe=",#./:@+~").replace("--", "-%2D").replace("--", "-%2D")


def status_in(pairs: Pairs) -> TaskState | None:
    return _STATES.get(pairs.get("status", ""))


def priority_in(pairs: Pairs) -> TaskPriority:
    return _PRIORITIES.get(pairs.get("priority", ""), "")


def short_text_in(pairs: Pairs, name: str) -> str:
    """A short printable text, or nothing."""
    text = pairs.get(name, "").strip()
    return text if len(text) <= MAX_NAME_CHARS and is_line(text) else ""


def keys_in(pairs: Pairs) -> tuple[str, ...]:
    """The keys of the tasks that this one depends on, sorted."""
    text = pairs.get("depends", "")
    return tuple(sorted(set(text.split(",")))) if _KEYS.fullmatch(text) else ()


def revision_in(pairs: Pairs) -> int:
    """The revision of the stored task when Hutch last wrote the line; 0 if it never did."""
    text = pairs.get("rev", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0
