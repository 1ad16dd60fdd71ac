"""Finds a change by the name that a user typed: an id, a part of one, a branch, or `last`."""

from collections.abc import Sequence
from pathlib import Path

from hutch.cli.current_repository import find_current_repository
from hutch.cli.local_only_notice import other_server
from hutch.domain.errors import NotFound
from hutch.domain.proposed_change import Change
from hutch.store.proposed_changes import Changes
from hutch.store.table_access_interface import Rows

MAX_COUNT = 10_000  # changes listed


async def find_change(rows: Rows, name: str) -> Change:
    """Find a change by name; `last` is the newest one of the current repository."""
    if name != "last":
        return await _find_named(rows, name)
    found = await Changes(rows).list(limit=MAX_COUNT)
    if mine := of_this_repository(found):
        return mine[0]
    here = find_current_repository(Path.cwd())
    if found and here and (here.root / ".git").is_dir():  # a linked worktree may belong to any repository
        raise NotFound(
            f"There is no change of {str(here.root)!r}. `hutch changes list --all` lists those of other "
            "repositories; name one of them by its id."
        )
    return await Changes(rows).find(name)


def of_this_repository(changes: Sequence[Change]) -> list[Change]:
    """Those of the repository of the current directory."""
    here = find_current_repository(Path.cwd())
    return [each for each in changes if here.is_at(each.repository)] if here else []


async def _find_named(rows: Rows, name: str) -> Change:
    try:
        return await Changes(rows).find(name)
    except NotFound:
        server = other_server()
        if server is None or not name.startswith("chg_"):
            raise
        raise NotFound(
            f"There is no change '{name}' on this machine. If it is one of {server.url}, review and merge it "
            f"there: {server.url.rstrip('/')}/c/{name}"
        ) from None
