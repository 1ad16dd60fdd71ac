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

from hutch.agent.jail_events import as_event
from hutch.agent.recorder import Recorder
from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.interface import Context
from hutch.agent.tools.toolbox import Toolbox
from hutch.app import jails, models, records
from hutch.app.repositories import own_directories
from hutch.app.workspaces import workspaces_of
from hutch.domain.errors import Conflict
from hutch.domain.ids import new_session_id
from hutch.flows.tool_calls import Tools
from hutch.jail.jail import Jailed
from hutch.jail.shell.shells import Shells
from hutch.settings import Loaded
from hutch.store.vault import Vault
from hutch.workspace.admission.client_directory import check_shown
from hutch.workspace.workspace import Workspace

FOR_AGENTS_ONLY = ("ask_user", "finish")  # who calls from outside has people, and an end, of its own
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
        await asyncio.to_thread(check_shown, directory, own_directories(loaded.paths), plain)
    async with AsyncExitStack() as stack:
        workspace = await _workspace(stack, loaded, directory)
        log_bytes = loaded.settings.sessions.log_bytes
        log = await stack.enter_async_context(records.event_log(loaded.paths, log_bytes=log_bytes))
        policy = await workspace.policy(jails.jail_policy(loaded.settings, network=network))
        policy = replace(policy, also_at=_outer_paths(directory))
        redactor = models.redactor(loaded)
        recorder = Recorder(log, new_session_id(), redactor)
        jail = await stack.enter_async_context(
            jails.open_jail(
                workspace.place,
                policy,
                outside=jails.way_out(loaded.settings, lambda attempt: recorder.report(as_event(attempt))),
                unsafe_workspace=unsafe_workspace,
            )
        )
        shells = Shells(jail, on_event=lambda event: recorder.report(as_event(event)))
        shells.admit = recorder.append
        offered = built_in_tools()
        tools = Tools(
            toolbox=Toolbox((tool for tool in offered if tool.name not in FOR_AGENTS_ONLY), redactor),
            context=Context(
                workspace,
                jail,
                shells,
                redactor=redactor,
                ignore=loaded.settings.ignore,
                test_command=loaded.settings.tests.command,
                test_timeout_s=loaded.settings.tests.timeout_s,
            ),
            recorder=recorder,
        )
        await tools.begin(f"mcp serve {directory}")
        try:
            yield tools
        finally:
            await asyncio.shield(asyncio.ensure_future(_close(tools, jail, shells)))


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
    workspaces, clean = workspaces_of(loaded), models.redactor(loaded).clean
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await stack.enter_async_context(workspaces.open_directory(directory, clean=clean))
        except Conflict:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(LOOK_S)
