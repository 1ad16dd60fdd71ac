"""The agent's tools on a person's own directory, for callers from outside.

The directory is worked on in place: in a jail, with one shell that lasts, and with a
snapshot before and after whatever may change something. Every call is in the log of
a session of its own. Nothing that comes out holds a secret that Hutch knows.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.agent.tools.all import NAMES, TOOLS
from hutch.agent.tools.seam import Context
from hutch.agent.tools.toolbox import Toolbox
from hutch.app import jails, models, records, workspaces
from hutch.app.ground import check_ground, has_git
from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.ids import new_session_id
from hutch.flows.tool_calls import Tools
from hutch.jail.jail import Jailed
from hutch.jail.shell.shells import Shells
from hutch.sessions.told import Told
from hutch.settings import Loaded
from hutch.snapshots.directory import Directory
from hutch.store.vault import Vault
from hutch.workspace.prepare.plain import look_into
from hutch.workspace.workspace import Workspace

FOR_AGENTS_ONLY = ("ask_user", "finish")  # who calls from outside has people, and an end, of its own
PLAIN = (
    "'{path}' is not a git repository, so all of it would be shown to the client: {contents}. "
    "Make it a repository (git init), or say that it may be shown: --plain-directory."
)
TOKEN = "mcp_token"  # a secret of the installation
PATIENCE_S, LOOK_S = 5.0, 0.1  # for a server that was just told to end


def kept_token(loaded: Loaded) -> str | None:
    """What callers by HTTP must know, when somebody has set it."""
    vault = Vault(loaded.paths.vault, loaded.paths.vault_keys)
    return vault.get(TOKEN) if loaded.paths.vault.exists() else None


@asynccontextmanager
async def open_tools(
    loaded: Loaded,
    directory: Path,
    *,
    network: Sequence[str] = (),
    plain: bool = False,
    unsafe_workspace: bool = False,
) -> AsyncIterator[Tools]:
    """Open a directory with all that tools need: the log, the workspace, the jail, the shells.

    `plain` says that it may be a directory without git.
    """
    if not unsafe_workspace:  # before anything in it is touched
        await asyncio.to_thread(_check, directory, loaded, plain)
    async with AsyncExitStack() as stack:
        workspace = await _workspace(stack, loaded, directory)
        log_bytes = loaded.settings.sessions.log_bytes
        log = await stack.enter_async_context(records.event_log(loaded.paths, log_bytes=log_bytes))
        policy = await workspace.policy(jails.jail_policy(loaded.settings, network=network))
        policy = replace(policy, also_at=_outer_paths(directory))
        told = Told()
        jail = await stack.enter_async_context(
            jails.open_jail(
                workspace.place,
                policy,
                outside=jails.way_out(loaded.settings, lambda attempt: told.report(jails.as_event(attempt))),
                unsafe_workspace=unsafe_workspace,
            )
        )
        shells = Shells(jail, on_event=lambda event: told.report(jails.as_event(event)))
        redactor = models.redactor(loaded)
        toolbox = Toolbox(TOOLS, clean=redactor.clean, settle=redactor.settled, mask=redactor.mask)
        tools = Tools(
            session_id=new_session_id(),
            toolbox=toolbox.only(name for name in NAMES if name not in FOR_AGENTS_ONLY),
            context=Context(
                workspace,
                jail,
                shells,
                ignore=loaded.settings.ignore,
                test_command=loaded.settings.tests.command,
                test_timeout_s=loaded.settings.tests.timeout_s,
                clean=redactor.clean,
                settle=redactor.settled,
                mask=redactor.mask,
            ),
            log=log,
            clean=redactor.clean,
            told=told,
        )
        shells.admit = told.write = tools.record
        await tools.begin(f"mcp serve {directory}")
        try:
            yield tools
        finally:
            await asyncio.shield(asyncio.ensure_future(_close(tools, jail, shells)))


def _check(directory: Path, loaded: Loaded, plain: bool) -> None:
    check_ground(directory, loaded.paths)
    if plain or has_git(directory):
        return
    with Directory.at(directory.resolve()) as opened:
        raise BadRequest(PLAIN.format(path=directory.resolve(), contents=look_into(opened)))


def _outer_paths(directory: Path) -> tuple[str, ...]:
    """Scripts and callers name files by the paths that they have out here."""
    return os.path.abspath(directory), str(directory.resolve())  # noqa: PTH100


async def _close(tools: Tools, jail: Jailed, shells: Shells) -> None:
    try:
        await tools.stop()
    finally:
        await jail.close()
        await shells.close()
        await tools.end()


async def _workspace(stack: AsyncExitStack, loaded: Loaded, directory: Path) -> Workspace:
    """The directory as a workspace, as soon as whoever had it before is gone."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await stack.enter_async_context(workspaces.open_directory(loaded, directory))
        except Conflict:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(LOOK_S)
