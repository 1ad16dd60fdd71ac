"""Offers the agent's tools on a user's own directory to external callers.

The tools work on the directory in place: in a jail, with one persistent shell, and with a snapshot
before and after each call that may change something. Every call is in the log of its own session.
No answer contains a secret that Hutch knows.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from hutch.agent import tool_call_rules as agent_rules
from hutch.agent.jail_event_conversion import as_event
from hutch.agent.repository_testing.session_test_runs import SessionTests
from hutch.agent.repository_testing.workspace_test_suite_runs import DEFAULT_OPTIONS, SuiteOptions
from hutch.agent.session_recorder import Recorder
from hutch.agent.tool_call_permission_decision import Approvals
from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.interface import Context
from hutch.agent.tools.model_written_paths import resolve_path
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.errors import Conflict
from hutch.domain.ids import new_session_id
from hutch.domain.redaction import Redactor
from hutch.flows.external_tool_calls import Tools
from hutch.flows.policies.applicable_policies import NetworkLimit, Policies
from hutch.jail.egress.egress_attempt_and_limit_types import Report
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.file_change_recorder import ChangeRecorder
from hutch.store.event_log import SqlLog
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.search_by_meaning import Embeds
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import Workspaces

ROLES = ("owner",)  # whose policies bind these tools: they work for the user of this machine
# External callers ask their users and finish by themselves; nobody opens a terminal here.
FOR_AGENTS_ONLY = (
    "ask_user",
    "finish",
    "terminal_read",
    "terminal_type",
    "debug",
    "delegate",
    "skill",
    "helper_changes",
)
RELEASE_TIMEOUT_S, POLL_INTERVAL_S = 1.0, 0.1  # for a server that is ending


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTools:
    """Opens the tools on a directory."""

    workspaces: Workspaces
    check_directory: Callable[[Path], None]  # raises when this directory may not be used
    open_log: Callable[[], AbstractAsyncContextManager[SqlLog]]
    policy: Policy
    open_jail: Callable[[JailLocation, Policy, Report], AbstractAsyncContextManager[Jailed]]
    redactor: Redactor
    policies_of: Callable[[Rows], Policies]  # of owners
    ignore: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    suite_options: SuiteOptions = DEFAULT_OPTIONS
    embedder: Embeds | None = None  # for search by meaning

    @asynccontextmanager
    async def open(self, directory: Path) -> AsyncIterator[Tools]:
        """Open the log, the workspace, the jail and the shells, and offer the tools on them."""
        await asyncio.to_thread(self.check_directory, directory)  # before anything in it is touched
        async with AsyncExitStack() as stack:
            workspace = await self._open_workspace(stack, directory)
            log = await stack.enter_async_context(self.open_log())
            recorder = Recorder(log, new_session_id(), self.redactor)
            policy = replace(await workspace.policy(self.policy), also_at=_outer_paths(directory))
            policies = await self.policies_of(log).binding_entries(ROLES, policy.also_at[-1])
            policy = replace(policy, network=NetworkLimit(policies).covered(policy.network))
            opening = self.open_jail(
                workspace.place, policy, lambda attempt: recorder.report(as_event(attempt))
            )
            jail = await stack.enter_async_context(opening)
            shells = Shells(jail, on_event=lambda event: recorder.report(as_event(event)))
            shells.admit = recorder.append
            tools = self._tools(workspace, jail, shells, recorder, log)
            tools.approvals = Approvals(
                agent_rules.Policy(bindings=tuple(each.binding() for each in policies if each.has_rules)),
                roots=(jail.workspace, *policy.also_at),
                resolve=partial(resolve_path, context=tools.context),
            )
            await tools.begin(f"mcp serve {directory}")
            try:
                yield tools
            finally:
                await asyncio.shield(asyncio.ensure_future(_close(tools, jail, shells)))

    def _tools(
        self, workspace: Workspace, jail: Jailed, shells: Shells, recorder: Recorder, rows: Rows
    ) -> Tools:
        activity = Activity()
        changes = ChangeRecorder(workspace, recorder, activity)
        recorder.take_changes, recorder.on_report = changes.take_events, activity.note
        offered = (tool for tool in built_in_tools() if tool.name not in FOR_AGENTS_ONLY)
        context = Context(
            workspace,
            jail,
            shells,
            redactor=self.redactor,
            ignore=self.ignore,
            allowed_commands=self.allowed_commands,
            suite_options=self.suite_options,
            tests=SessionTests(recorder, rows),
            working=activity.working,
            embedder=self.embedder,
        )
        toolbox = Toolbox(offered, self.redactor)
        return Tools(toolbox=toolbox, context=context, recorder=recorder, changes=changes)

    async def _open_workspace(self, stack: AsyncExitStack, directory: Path) -> Workspace:
        """Open the directory as a workspace: alone if possible, else beside the process that uses it.

        A server that is ending gets a moment, so that the next one continues its snapshots.
        """
        open_directory = partial(self.workspaces.open_directory, directory, clean=self.redactor.redact)
        until = time.monotonic() + RELEASE_TIMEOUT_S
        while time.monotonic() < until:
            try:
                return await stack.enter_async_context(open_directory())
            except Conflict:
                await asyncio.sleep(POLL_INTERVAL_S)
        return await stack.enter_async_context(open_directory(beside_others=True))


def _outer_paths(directory: Path) -> tuple[str, ...]:
    """The paths outside of the jail, by which scripts and callers name files."""
    return os.path.abspath(directory), str(directory.resolve())  # noqa: PTH100


async def _close(tools: Tools, jail: Jailed, shells: Shells) -> None:
    try:
        await tools.stop()
    finally:
        await jail.close()
        await shells.close()
        await tools.end()
