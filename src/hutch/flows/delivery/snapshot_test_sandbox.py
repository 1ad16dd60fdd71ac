"""A copy of a workspace as of a snapshot, in a sandbox of its own that is removed after use."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from hutch.agent.tools.interface import Context
from hutch.domain.session import Session
from hutch.flows.policies.applicable_policies import Policies
from hutch.jail.policy import Policy
from hutch.sessions.sandbox import Sandbox
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import Workspaces, fork_workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """The snapshot to copy, and how it is tested."""

    workspace: Workspace
    snapshot: int
    id: str
    test_command: str = ""  # that of the settings when empty
    policy: Policy  # of its jail: that of the session


OpenScratch = Callable[[Scratch], AbstractAsyncContextManager[Context]]


@dataclass(frozen=True, slots=True)
class ScratchSandboxes:
    """Opens and removes such copies."""

    workspaces: Workspaces
    policies: Policies
    open_sandbox: Callable[[str, Policy], AbstractAsyncContextManager[Sandbox]]  # on a workspace, by its id

    @asynccontextmanager
    async def open(self, session: Session, scratch: Scratch) -> AsyncIterator[Context]:
        """Open a copy for tests. Its network is limited to what the policies allow the session now."""
        if await self.workspaces.find(scratch.id):
            await self.workspaces.remove(scratch.id)  # left by a process that was killed
        record = await fork_workspace(scratch.workspace, scratch.snapshot, scratch.id)
        try:
            limit = await self.policies.network_limit(session)
            policy = replace(scratch.policy, network=limit.covered(scratch.policy.network))
            async with self.open_sandbox(record.id, policy) as sandbox:
                yield Context(
                    sandbox.workspace,
                    sandbox.jail,
                    sandbox.shells,
                    suite_options=sandbox.suite_options.with_command(scratch.test_command),
                )
        finally:
            await self.workspaces.remove(record.id)
