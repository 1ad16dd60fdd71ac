"""A workspace with a jail on it and shells in that, opened together."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from hutch.app import jails, workspaces
from hutch.jail.jail import Jailed
from hutch.jail.network import Outside
from hutch.jail.shell.shells import Shells
from hutch.sessions.desk import Desk
from hutch.sessions.told import Told
from hutch.settings import Loaded


@asynccontextmanager
async def open_desk(loaded: Loaded, workspace_id: str, *, network: Sequence[str] = ()) -> AsyncIterator[Desk]:
    """All that commands need; when the block is left, nothing runs there any more."""
    async with AsyncExitStack() as stack:
        workspace = await stack.enter_async_context(workspaces.open_workspace(loaded, workspace_id))
        if not await workspace.list_snapshots():  # before anybody changes a file: what to compare with
            await workspace.snapshot("as it came")
        policy = await workspace.policy(jails.jail_policy(loaded.settings, network=network))
        told = Told()
        outside = Outside(
            on_egress=lambda attempt: told.report(jails.as_event(attempt)),
            also_allow_networks=loaded.settings.jail.network_also,
        )
        jail = await stack.enter_async_context(jails.open_jail(workspace.place, policy, outside=outside))
        shells = Shells(jail, on_event=lambda event: told.report(jails.as_event(event)))
        stack.push_async_callback(_close, jail, shells)
        yield Desk(workspace, jail, shells, told)


async def _close(jail: Jailed, shells: Shells) -> None:
    """The jail first: what runs in the background ends with it, and nobody waits for that."""
    await jail.close()
    await shells.close()
