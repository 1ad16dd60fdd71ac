"""Opens the sandbox of a session: a workspace with its jail and shells."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hutch.agent.jail_event_conversion import as_event
from hutch.agent.repository_testing.services_for_tests import Report
from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.agent.session_recorder import Recorder
from hutch.jail.egress import Admit, EgressAttempt
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.jail_directory_and_namespaces import JailLocation, to_location
from hutch.jail.jail_startup import Jailed
from hutch.jail.policy import Policy
from hutch.jail.shell.command_results_and_events import ShellEvent
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.sessions.sandbox import Sandbox
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.search_by_meaning import Embeds
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The settings for the sandbox on one workspace."""

    networks: tuple[str, ...]  # private networks that its jail may reach
    allowed_commands: tuple[str, ...]  # programs that `exec` may run; empty: all
    suite_options: Callable[[Report | None], SuiteOptions]  # takes a function for events of test services
    embedder: Embeds | None = None  # for search by meaning


@dataclass(frozen=True, slots=True)
class SandboxOpener:
    """Opens sandboxes on workspaces."""

    open_workspace: Callable[[str], AbstractAsyncContextManager[Workspace]]  # by its id
    open_jail: Callable[[JailLocation, Policy, Outside], AbstractAsyncContextManager[Jailed]]
    options: Callable[[Record], SandboxOptions]

    @asynccontextmanager
    async def open(
        self,
        workspace_id: str,
        policy: Callable[[Record], Policy],
        start_in: str = "",
        recorder: Recorder | None = None,
        admit: Admit | None = None,
    ) -> AsyncIterator[Sandbox]:
        """Open a workspace with its jail and shells; no process runs there after the block.

        Shells start in the directory `start_in` if it exists. The jail reports commands and connections to
        the `recorder`, if there is one. `admit` may refuse a connection later.
        """
        async with AsyncExitStack() as stack:
            workspace = await stack.enter_async_context(self.open_workspace(workspace_id))
            asked = policy(workspace.record)
            rules = await workspace.policy(asked)
            options = self.options(workspace.record)
            if not await workspace.list_snapshots():  # the baseline for diffs, before any change
                await workspace.snapshot("at the start")

            def report(event: ShellEvent | EgressAttempt) -> None:
                if recorder is not None:
                    recorder.report(as_event(event))

            outside = Outside(on_egress=report, also_allow_networks=options.networks, admit=admit)
            beside = partial(self._open_beside, workspace.place, replace(outside, always=True))
            jail = await stack.enter_async_context(self.open_jail(workspace.place, rules, outside))
            jail.requested_policy = asked
            is_there = await workspace.work(workspace.files.is_directory, start_in)  # it may not be committed
            shells = Shells(jail, on_event=report, start_in=start_in if is_there else "")
            if recorder is not None:
                shells.admit = recorder.append
            stack.push_async_callback(_close, jail, shells)
            suites = options.suite_options(recorder.report if recorder is not None else None)
            yield Sandbox(
                *(workspace, jail, shells, options.allowed_commands),
                suite_options=suites,
                embedder=options.embedder,
                open_beside=beside,
            )

    @asynccontextmanager
    async def _open_beside(
        self, place: JailLocation, outside: Outside, policy: Policy, use: str
    ) -> AsyncIterator[Jailed]:
        """Open another jail for the session, on its workspace or on an empty directory."""
        with TemporaryDirectory(prefix="hutch-empty-") as empty:
            await asyncio.to_thread(Path(empty).chmod, 0o755)  # the jail may have another user
            where = to_location(empty) if use == "none" else place
            async with self.open_jail(where, policy, outside) as jail:
                yield jail


async def _close(jail: Jailed, shells: Shells) -> None:
    """Close the jail first: it kills background programs, so closing the shells need not wait for them."""
    await jail.close()
    await shells.close()
