"""Warns the user about uncommitted files in a repository of this machine."""

from contextlib import suppress

from hutch.domain.errors import HutchError
from hutch.forge.forge_and_credential_selection import COMMAND_LINE, Forges
from hutch.workspace.lifecycle.initial_repository_settings import SETTINGS_FILE
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
        async with workspaces.open_repository(url.path, True) as local:
            changed = await local.changes() if local is not None and not local.is_bare else []
    if not changed:
        return ""
    changed.sort(key=lambda path: path != SETTINGS_FILE)  # the most important one first
    named = ", ".join(changed[:MAX_NAMED]) + (", …" if len(changed) > MAX_NAMED else "")
    files, them = (f"{len(changed)} files are", "them") if len(changed) > 1 else ("1 file is", "it")
    return (
        f"{files} changed but not committed, and so not in this run: {named}. --uncommitted includes {them}."
    )
