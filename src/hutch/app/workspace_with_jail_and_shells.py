"""Opens a workspace together with its jail and shells."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from hutch.agent.jail_event_conversion import as_event
from hutch.agent.session_recorder import Recorder
from hutch.app import jails
from hutch.app.test_suite_options import suite_options
from hutch.app.workspaces import open_workspace, settings_for
from hutch.jail.egress import Admit, EgressAttempt
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.jail_startup import Jailed
from hutch.jail.policy import Policy
from hutch.jail.shell.command_result import ShellEvent
from hutch.jail.shell.shells_and_jails_by_session import Shells
from hutch.sessions.sandbox import Sandbox
from hutch.settings import LoadedSettings
from hutch.workspace.lifecycle.workspace_record_and_directories import Record


@asynccontextmanager
async def open_sandbox(
    loaded: LoadedSettings,
    workspace_id: str,
    policy: Callable[[Record], Policy],
    start_in: str = "",
    recorder: Recorder | None = None,
    admit: Admit | None = None,
) -> AsyncIterator[Sandbox]:
    """Open a workspace with its jail and shells; no process runs there after the block.

    Shells start in the directory `start_in` if it exists. The jail reports commands and connections to the
    `recorder`, if there is one. `admit` may refuse a connection later.
    """
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(open_workspace(loaded, workspace_id))
        asked = policy(workspace.record)
        rules = await workspace.policy(asked)
        loaded = settings_for(loaded, workspace.record)
        if not await workspace.list_snapshots():  # the baseline for diffs, before any change
            await workspace.snapshot("as it came")

        def report(event: ShellEvent | EgressAttempt) -> None:
            if recorder is not None:
                recorder.report(as_event(event))

        outside = Outside(
            on_egress=report,
            also_allow_networks=loaded.settings.jail.private_networks,
            admit=admit,
        )
        jail = await stack.enter_async_context(jails.open_jail(workspace.place, rules, outside=outside))
        jail.requested_policy = asked
        is_there = await workspace.work(workspace.files.is_directory, start_in)  # it may not be committed
        shells = Shells(jail, on_event=report, start_in=start_in if is_there else "")
        if recorder is not None:
            shells.admit = recorder.append
        stack.push_async_callback(_close, jail, shells)
        options = suite_options(loaded.settings, recorder.report if recorder is not None else None)
        allowed = loaded.settings.jail.allowed_commands
        yield Sandbox(workspace, jail, shells, allowed, suite_options=options)


async def _close(jail: Jailed, shells: Shells) -> None:
    """Close the jail first: it kills background programs, so closing the shells need not wait for them."""
    await jail.close()
    await shells.close()
