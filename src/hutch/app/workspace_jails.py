"""Opens a workspace together with its jail and shells."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from hutch.agent.jail_event_conversion import as_event
from hutch.agent.session_recorder import Recorder
from hutch.app import jails
from hutch.app.workspaces import open_workspace, settings_for
from hutch.jail.egress import EgressAttempt
from hutch.jail.egress_startup import Outside
from hutch.jail.jail_startup import Jailed
from hutch.jail.shell.command_result import ShellEvent
from hutch.jail.shell.shells import Shells
from hutch.sessions.sandbox import Sandbox
from hutch.settings import LoadedSettings


@asynccontextmanager
async def open_sandbox(
    loaded: LoadedSettings,
    workspace_id: str,
    *,
    network: Sequence[str] = (),
    start_in: str = "",
    author: str = "",
    recorder: Recorder | None = None,
) -> AsyncIterator[Sandbox]:
    """Open a workspace with its jail and shells; no process runs there after the block.

    Shells start in the directory `start_in` if it exists; commits there are by `author`. The jail reports
    commands and connections to the `recorder`, if there is one.
    """
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(open_workspace(loaded, workspace_id))
        loaded = settings_for(loaded, workspace.record)
        if not await workspace.list_snapshots():  # the baseline for diffs, before any change
            await workspace.snapshot("as it came")
        policy = await workspace.policy(jails.jail_policy(loaded.settings, network=network, author=author))

        def report(event: ShellEvent | EgressAttempt) -> None:
            if recorder is not None:
                recorder.report(as_event(event))

        outside = Outside(
            on_egress=report,
            also_allow_networks=loaded.settings.jail.private_networks,
        )
        jail = await stack.enter_async_context(jails.open_jail(workspace.place, policy, outside=outside))
        is_there = await workspace.work(workspace.files.is_directory, start_in)  # it may not be committed
        shells = Shells(jail, on_event=report, start_in=start_in if is_there else "")
        if recorder is not None:
            shells.admit = recorder.append
        stack.push_async_callback(_close, jail, shells)
        yield Sandbox(workspace, jail, shells)


async def _close(jail: Jailed, shells: Shells) -> None:
    """Close the jail first: it kills background programs, so closing the shells need not wait for them."""
    await jail.close()
    await shells.close()
