"""The details of one session, as names and values."""

from collections.abc import Mapping, Sequence
from typing import Any

from hutch.cli.render.delivery_result import delivery_rows
from hutch.cli.render.session_option_change_text import jail_variables, limit_text, named_values
from hutch.cli.render.session_rows import age, state_of


def session_details(found: Mapping[str, Any], shares: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The names and values that `hutch sessions show` prints; those without a value are left out there."""
    state = state_of(found) + (f": {found['reason']}" if found["reason"] else "")
    return [
        ("session", found["id"]),
        ("state", state),
        ("purpose", found["purpose"]),
        ("role", found["role"]),
        ("company", found.get("company", "")),
        ("expectations", found["expectations"]),
        ("owner", found.get("owner_name") or found["owner"]),
        ("shared with", ", ".join(f"{each['user_name']} ({each['role']})" for each in shares)),
        ("repository", f"{found['repository']} {found['revision']}".strip()),
        ("started with", _count_files(found.get("starter_files", 0))),
        ("persona", found["persona"]),
        ("model", found["model"]),
        ("network", ", ".join(found["network"])),
        *jail_variables(found),
        ("replies", named_values(found.get("generation") or {})),
        ("run limits", named_values(found.get("limits") or {})),
        ("limits", limit_text(found.get("effective_limits") or ())),
        ("forked from", found["forked_from"]),
        ("helper of", found.get("parent", "")),
        ("delivers", "yes" if found["deliver"] else ""),
        ("age", age(found["created_ms"])),
        ("events", str((found["head"] or {}).get("seq", 0))),
        *delivery_rows(found),
    ]


def _count_files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}, without a repository" if count else ""
