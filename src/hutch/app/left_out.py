"""What a repository of this machine has changed and not committed, for who may not have thought of it."""

import asyncio
from contextlib import suppress

from hutch.app import forges
from hutch.app.repositories import repositories_of
from hutch.app.workspaces import home_of
from hutch.domain.errors import HutchError
from hutch.settings import Loaded
from hutch.workspace.prepare.local import open_local

SHOWN = 3


async def left_out(loaded: Loaded, repository: str) -> str:
    """A sentence about what begins with a commit and so leaves that out; empty where there is none.

    Git looks inside a jail: the repository's settings can run programs.
    """
    changed: list[str] = []
    with suppress(HutchError):  # what is wrong with it is told by who prepares a workspace of it
        url = await forges.reachable(loaded, repository, guarded=False)
        if url.path is None:
            return ""
        async with repositories_of(loaded).opened(url.path, anywhere=True) as pinned:
            if pinned.layout is None or pinned.layout.bare:
                return ""
            scratch = loaded.paths.data / "empty"  # nothing is ever written to it
            await asyncio.to_thread(home_of(loaded).make)
            await asyncio.to_thread(scratch.mkdir, mode=0o755, exist_ok=True)
            async with open_local(pinned.layout, scratch) as local:
                changed = await local.changes()
    if not changed:
        return ""
    named = ", ".join(changed[:SHOWN]) + (", …" if len(changed) > SHOWN else "")
    files, them = (f"{len(changed)} files are", "them") if len(changed) > 1 else ("1 file is", "it")
    return f"{files} changed and not committed, and so no part of this: {named}. --uncommitted brings {them}."
