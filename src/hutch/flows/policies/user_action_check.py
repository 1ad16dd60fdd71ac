"""Checks what users themselves do in a session: their commands, changes and reads, by any interface.

The session host calls this before it answers a request of a user, so REST, MCP, GraphQL and
WebSockets are checked alike. Where a policy asks, a user who may answer needs no approval for
their own request; all others are refused.
"""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Any

from hutch.agent.tool_call_permission_decision import PARSING, named_paths
from hutch.agent.tool_call_rules import SEARCH_TOOLS, Decision, Policy
from hutch.agent.tools.interface import Arguments
from hutch.agent.tools.write_edit_and_patch import ApplyPatchArguments
from hutch.domain.errors import Denied, HutchError
from hutch.domain.session import Session
from hutch.domain.user import ShareScope
from hutch.flows.policies.applicable_policies import Policies, may_answer_as, refusal
from hutch.flows.session_permissions import check_scope
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.debugging.debug_requests import DebuggerChange, SetBreakpoints
from hutch.sessions.file_and_command_requests import Request
from hutch.sessions.file_tools_for_users import parse_arguments
from hutch.sessions.live_session import LiveSession
from hutch.store.sessions import Sessions
from hutch.store.shares import Shares
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.file_reads_and_changes import CheckPath
from hutch.workspace.rule_based_search_filter import HiddenFiles, SearchCheck

TERMINAL = "terminal"  # the name of terminals in rules
DEBUGGER = "debug"  # the name of the debugger in rules
UNCHECKED = "what is typed in a terminal or evaluated in a debugger cannot be checked"
SEARCH = "grep"  # rules about it hold for all search tools
NAME_TOOLS = ("glob", "list_directory")  # show names of files, but no content
WHOLE_TREE = "it covers files that a rule excludes"


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A request as rules see it: a tool with a command, with paths, or with all files below paths."""

    tool: str
    scope: ShareScope | None = None  # that a share must have
    command: str | None = None
    paths: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    changes_as: str = ""  # the tool that rules see for each path that the request turns out to change


def describe(request: Request[Any]) -> ToolUse | None:
    """The tool that a request uses; None for requests that rules are not about."""
    match request:
        case requests.RunCommand(command):
            return ToolUse("bash", "commands", command=command)
        case requests.RunProgram(argv):
            return ToolUse("exec", "commands", command=shlex.join(argv))
        case requests.StartTests():
            return ToolUse("run_tests", "commands")
        case requests.SignalCommand() | requests.CancelTests() | requests.StopWatchingTests():
            return ToolUse("signal", "commands")
        case requests.OpenTerminal() | requests.CloseTerminal():
            return ToolUse(TERMINAL, "terminals")
        case SetBreakpoints():
            return ToolUse("breakpoints", "commands")
        case DebuggerChange():
            return ToolUse(DEBUGGER, "commands")
        case requests.WriteFile(path) | requests.MakeDirectory(path):
            return ToolUse("write_file", "files", paths=(path,))
        case requests.DeleteFile(path):
            return ToolUse("write_file", "files", paths=(path,), changes_as="write_file")
        case requests.MoveFile(path, to):  # it shows the content under another name
            return ToolUse("edit_file", "files", paths=(path, to), changes_as="edit_file")
        case requests.CheckUndo():
            return ToolUse("undo", changes_as="edit_file")
        case requests.EditFile(path):
            return ToolUse("edit_file", "files", paths=(path,))
        case requests.ApplyPatch(patch):
            return ToolUse("apply_patch", "files", paths=ApplyPatchArguments(patch=patch).touched())
        case requests.ListPorts():
            return ToolUse("preview", "previews")
        case requests.RestoreSnapshot(_, path):
            return ToolUse("write_file", "files", below=(path,))
        case requests.TakeSnapshot():
            return ToolUse("snapshot", "files")
        case requests.ReadFile(path) | requests.ReadSnapshotFile(_, path):
            return ToolUse("read_file", paths=(path,))
        case requests.StatFile(path, hashed):
            return ToolUse("read_file" if hashed else "glob", paths=(path,))
        case requests.SearchFiles(query):
            return ToolUse("grep", below=(query.path,))
        case requests.FindFiles(_, path) | requests.ListFiles(path):
            return ToolUse("glob", below=(path,))
        case requests.Diff(path=path, old_path=old_path):
            return ToolUse("read_file", below=(path, *([old_path] if old_path else [])))
        case requests.ReadWithTool(tool, arguments) | requests.ChangeWithTool(tool, arguments):
            return _describe_tool(tool, arguments, "files" if request.changes else None)
    if request.changes:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(request).__name__).lower()
        return ToolUse(name, "commands")
    return None


def _describe_tool(tool: str, arguments: Mapping[str, Any], scope: ShareScope | None) -> ToolUse:
    """The use of one of the agent's tools. Invalid arguments name no path: the tool refuses them."""
    parsed = parse_arguments(tool, arguments)
    paths = named_paths(parsed) if isinstance(parsed, Arguments) else ()
    if hasattr(parsed, "searched"):
        return ToolUse(tool, scope, below=paths)
    return ToolUse(tool, scope, paths=paths)


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """Refuses requests that a share or a policy excludes."""

    policies: Policies

    @asynccontextmanager
    async def __call__(self, live: LiveSession, request: Request[Any], by: str) -> AsyncIterator[CheckPath]:
        """Check a request of the user `by`. Yields the check of the paths that it changes, for requests that
        find them only while they are performed."""
        use = describe(request)
        if use is None:
            yield _allow_path
            return
        session = await Sessions(self.policies.rows).get(live.id)
        if use.scope is not None:
            await self.check_scope(session, by, use.scope)
        policy = await self.policies.user_policy(session, by)
        if not policy.bindings:
            yield _allow_path
            return
        resolved = await self._resolve(live, (*use.paths, *use.below))
        await self._check(session, request, use, policy, resolved, by)
        roles = await self.policies.roles_of(by, session)
        if use.tool in SEARCH_TOOLS:  # they leave out the files that rules exclude
            yield SearchCheck(_hidden_files(policy, roles))
            return
        if not use.changes_as:
            yield _allow_path
            return
        check = PathCheck(policy, use.changes_as, roles, resolved)
        try:
            yield check
        except Denied:
            if check.denied is not None:
                await self.policies.note(session.id, use.tool, check.denied, user_id=by)
            raise

    async def _check(
        self,
        session: Session,
        request: Request[Any],
        use: ToolUse,
        policy: Policy,
        resolved: dict[str, str],
        by: str,
    ) -> None:
        if use.tool in (TERMINAL, DEBUGGER):
            is_checked = use.tool == DEBUGGER or isinstance(request, requests.OpenTerminal)
            for decision in _about_any_command(policy, use.tool) if is_checked else ():
                await self._enforce(session, use.tool, decision, by)
            return
        loop = asyncio.get_running_loop()
        decision = await loop.run_in_executor(PARSING, _decide, policy, use, resolved)
        await self._enforce(session, use.tool, decision, by)
        if isinstance(request, requests.StartTests) and session.delivery.tests:
            command = ToolUse("bash", command=session.delivery.tests)
            decision = await loop.run_in_executor(PARSING, _decide, policy, command, {})
            await self._enforce(session, use.tool, decision, by)
        shows_content = use.below and use.tool not in (*NAME_TOOLS, *SEARCH_TOOLS)
        if shows_content and (hidden := _hidden_below(policy, use.tool)):
            await self._enforce(session, use.tool, hidden, by)

    async def check_scope(self, session: Session, user_id: str, scope: ShareScope) -> None:
        """Refuse a user whose share of the session does not include this."""
        if session.owner == user_id or "owner" in await self.policies.roles_of(user_id):
            return
        if share := await Shares(self.policies.rows).find(session.id, user_id):
            check_scope(share, scope)

    async def may_type(self, session: Session, user_id: str) -> bool:
        """True if a user may type into terminals of a session."""
        try:
            await self.check_scope(session, user_id, "terminals")
        except Denied:
            return False
        policy = await self.policies.user_policy(session, user_id)
        for decision in _about_any_command(policy, TERMINAL):
            if await self._is_refused(session, decision, user_id):
                return False
        return True

    async def _enforce(self, session: Session, tool: str, decision: Decision, by: str) -> None:
        if await self._is_refused(session, decision, by):
            await self.policies.note(session.id, tool, decision, user_id=by)
            raise refusal(decision)

    async def _is_refused(self, session: Session, decision: Decision, by: str) -> bool:
        if decision.action == "ask":
            return not await self.policies.may_approve(session, by, decision.approvers)
        return decision.action == "deny"

    async def _resolve(self, live: LiveSession, paths: Sequence[str]) -> dict[str, str]:
        """The paths without links, which give files other names than those in the rules."""
        found: dict[str, str] = {}
        if not any(paths):
            return found
        async with live.used(changes=False) as sandbox:
            roots = (sandbox.jail.workspace, *sandbox.jail.policy.also_at)
            for path in paths:
                with suppress(HutchError):  # the request itself is refused, and says why
                    found[path] = await sandbox.workspace.resolve_links(path, roots)
        return found


@dataclass(slots=True)
class PathCheck:
    """Refuses paths that a policy excludes, one by one, while a request is performed."""

    policy: Policy
    tool: str
    roles: Sequence[str]  # of the user
    resolved: dict[str, str]  # the paths of the request without links
    denied: Decision | None = None

    def __call__(self, path: str) -> None:
        is_directory, path = path.endswith("/"), path.rstrip("/")
        names = [path]
        for given, real in self.resolved.items():
            if given != real and (path == given or path.startswith(f"{given}/")):
                names.append(real + path[len(given) :])
        paths, below = ([], names) if is_directory else (names, [])
        decision = self.policy.decide(self.tool, paths=paths, below=below)
        may_answer = decision.action == "ask" and may_answer_as(self.roles, decision.approvers)
        if decision.action != "allow" and not may_answer:
            self.denied = decision
            raise refusal(decision)


def _allow_path(path: str) -> None:
    """Allow every path."""


def _decide(policy: Policy, use: ToolUse, resolved: dict[str, str]) -> Decision:
    paths, below = (
        tuple(dict.fromkeys([*named, *(resolved[path] for path in named if path in resolved)]))
        for named in (use.paths, use.below)
    )
    return policy.decide(use.tool, command=use.command, paths=paths, below=below)


def _about_any_command(policy: Policy, tool: str) -> list[Decision]:
    """The decisions about a terminal or debugger: the rules for it, and every rule about commands."""
    found = [policy.decide(tool), policy.decide("bash")]
    for binding in policy.bindings:
        for rule in binding.policy.rules:
            if rule.pattern and rule.is_about("bash") and rule.action != "allow":
                found.append(binding.mark(Decision(rule.action, f"{rule} ({UNCHECKED})")))
    return found


def _hidden_files(policy: Policy, roles: Sequence[str]) -> HiddenFiles:
    """The files that a search of a user of these roles leaves out."""
    excluded = [
        str(rule)
        for binding in policy.bindings
        for rule in binding.policy.rules
        if rule.pattern and rule.is_about(SEARCH)
        if rule.action == "deny" or (rule.action == "ask" and not may_answer_as(roles, binding.approvers))
    ]

    @cache
    def is_hidden(path: str) -> bool:
        decision = policy.decide(SEARCH, paths=[path])
        return decision.action == "deny" or (
            decision.action == "ask" and not may_answer_as(roles, decision.approvers)
        )

    return HiddenFiles(is_hidden, tuple(dict.fromkeys(excluded)))


def _hidden_below(policy: Policy, tool: str) -> Decision | None:
    """The first rule that excludes some files: a search or comparison of a tree may show these."""
    for binding in policy.bindings:
        for rule in binding.policy.rules:
            if rule.pattern and rule.action != "allow" and rule.is_about(tool):
                return binding.mark(Decision(rule.action, f"{rule} ({WHOLE_TREE})"))
    return None
