"""Warns the user about uncommitted files in a repository of this machine."""

import asyncio
from contextlib import suppress

from hutch.domain.errors import HutchError
from hutch.forge.forge_selection import COMMAND_LINE, Forges
from hutch.workspace.preparation.jailed_repository import open_jailed_repository
from hutch.workspace.workspaces import Workspaces

MAX_NAMED = 3


async def describe_uncommitted(workspaces: Workspaces, forges: Forges, repository: str) -> str:
    """A sentence about files that a run from a commit omits; empty if there are none.

    Git runs in a jail, since the repository's settings can start programs.
    """
    changed: list[str] = []
    with suppress(HutchError):  # the preparation of the workspace reports the error
        url = await forges.resolve_url(repository, COMMAND_LINE)
        if url.path is None:
            return ""
        async with workspaces.repositories.open(url.path, unrestricted=True) as pinned:
            if pinned.layout is None or pinned.layout.bare:
                return ""
            scratch = workspaces.home.data / "empty"  # nothing is ever written to it
            await asyncio.to_thread(workspaces.home.make)
            await asyncio.to_thread(scratch.mkdir, mode=0o755, exist_ok=True)
            async with open_jailed_repository(pinned.layout, scratch) as local:
                changed = await local.changes()
    if not changed:
        return ""
    named = ", ".join(changed[:MAX_NAMED]) + (", …" if len(changed) > MAX_NAMED else "")
    files, them = (f"{len(changed)} files are", "them") if len(changed) > 1 else ("1 file is", "it")
    return (
        f"{files} changed but not committed, and so not in this run: {named}. --uncommitted includes {them}."
    )
