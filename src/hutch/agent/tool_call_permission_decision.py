"""Decides whether a call may be made: by the rules, or by a user where a rule says ask.

An answer holds once, for the session, or always: then for this user in every
repository, until it is withdrawn. The question shows what an answer would cover.
Where no user can be asked, ask means deny.
"""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Literal

from hutch.agent.tool_call_rules import COMMAND_TOOLS, TYPING_TOOL, Decision, Policy, Rule
from hutch.agent.tools.interface import Arguments, ToolResult
from hutch.domain.errors import HutchError
from hutch.domain.events import ApprovalAnswered, ApprovalRequested, Event, StepReached
from hutch.jail.policy import WORKSPACE
from hutch.llm.interface import Call
from hutch.system.lazy_dataclass import dataclass

Scope = Literal["once", "session", "always"]
Write = Callable[..., Awaitable[None]]
SUMMARY_CHARS = 8000
PARSING = ThreadPoolExecutor(max_workers=1, thread_name_prefix="parsing")


@dataclass(frozen=True, slots=True)
class Answer:
    """A user's answer to an approval question."""

    allowed: bool
    scope: Scope = "once"
    by: str = ""
    reason: str = ""


Asker = Callable[[ApprovalRequested, tuple[Rule, ...]], Awaitable[Answer]]
Resolve = Callable[[str], Awaitable[str]]
NoteDecision = Callable[[Call, Decision], Awaitable[None]]  # records a decision of an owner's policy
SaveRules = Callable[[tuple[Rule, ...]], Awaitable[None]]


@dataclass(slots=True)
class Approvals:
    """The rules of a run, what users have allowed so far, and how to ask them."""

    policy: Policy
    ask: Asker | None = None  # None: no user is connected
    save_rules: SaveRules | None = None  # stores rules that were allowed with scope "always"
    roots: Sequence[str] = (WORKSPACE,)  # paths of the workspace inside the jail
    resolve: Resolve | None = None  # follows the links of a path
    note: NoteDecision | None = None  # for the audit
    refresh: Callable[[], Awaitable[None]] | None = None  # reads approvals that were extended meanwhile
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)  # one question at a time

    async def check(self, call: Call, args: Arguments, write: Write) -> ToolResult | None:
        """None when the call may be made, else the refusal for the model."""
        decision = await self._decide(call.tool, args)
        if decision.policies and self.note is not None:
            await self.note(call, decision)
        if decision.action == "ask":
            async with self._turn:
                # Another question's answer may have covered this call meanwhile.
                if self.refresh is not None:
                    await self.refresh()
                decision = await self._decide(call.tool, args)
                if decision.action == "ask":
                    return await self._ask(call, args, decision, write)
        if decision.action == "deny":
            return _refusal(
                f"A rule denies this: {decision}. Find another way, or say that you cannot.", decision
            )
        return None

    async def remember(self, tool: str, args: Arguments, policies: Collection[str] = ()) -> None:
        """Restore an answer with scope "session" from before a crash; `policies` are those of the owner that
        had asked."""
        covers = (await self._decide(tool, args)).covers
        self.policy = self.policy.granted(covers, policies)

    async def _decide(self, tool: str, args: Arguments) -> Decision:
        # Another process parses commands, one at a time, and may take seconds. A thread pool of its own
        # keeps that wait from blocking other work.
        threads = PARSING if isinstance(getattr(args, "command", None), str) else None
        resolved = [] if threads else await self._resolve_paths(args)
        work = partial(decide, self.policy, tool, args, self.roots, resolved)
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    async def _resolve_paths(self, args: Arguments) -> list[str]:
        """The paths of a call, with links resolved. The tool refuses those that lead out of the workspace."""
        found: list[str] = []
        if self.resolve is not None:
            for path in named_paths(args):
                with suppress(HutchError):
                    found.append(await self.resolve(path))
        return found

    async def _ask(self, call: Call, args: Arguments, decision: Decision, write: Write) -> ToolResult | None:
        if self.ask is None:
            return _refusal(
                f"This needs a user's approval ({_described(decision)}), and no user is here to give it. "
                f"Find another way, or finish and say what remains to be done.",
                decision,
            )
        question = ApprovalRequested(
            call_id=call.id,
            tool=call.tool,
            summary=summary(args),
            rule=decision.rule,
            source=decision.source,
            policies=decision.policies,
            approvers=decision.approvers,
            covers=tuple(f"{rule.tool} {rule.pattern}".strip() for rule in decision.covers),
        )
        await write(question)
        answer = await self.ask(question, decision.covers)
        # Without rules to add, an answer can hold only once.
        scope = answer.scope if decision.covers else "once"
        saves = decision.takes_saved and call.tool != TYPING_TOOL  # a terminal's id means nothing elsewhere
        if scope == "always" and (self.save_rules is None or not saves):
            scope = "session"  # there is no store for a longer one, or an owner's policy accepts none
        event: Event = ApprovalAnswered(call_id=call.id, allowed=answer.allowed, scope=scope, by=answer.by)
        await write(event)
        if not answer.allowed:
            why = f": {answer.reason.rstrip('. ')}." if answer.reason else "."
            return _refusal(
                f"The user does not allow this{why} Do something else, or ask the user what to do.",
                decision,
            )
        if scope != "once":
            self.policy = self.policy.granted(decision.covers, decision.policies)
        if scope == "always" and self.save_rules is not None:
            try:
                await self.save_rules(decision.covers)
            except HutchError as error:
                why = f"warning: This is allowed for this session only; later sessions ask again: {error}"
                await write(StepReached(step="inspecting", message=why))
        return None


def decide(
    policy: Policy,
    tool: str,
    args: Arguments,
    roots: Sequence[str] = (WORKSPACE,),
    resolved: Sequence[str] = (),
) -> Decision:
    """Apply the rules to a call. Paths are compared both normalised and with their links resolved."""
    command = getattr(args, "command", None)
    if tool in COMMAND_TOOLS and isinstance(command, str):
        return policy.decide(tool, command=command)
    if tool == TYPING_TOOL:
        return policy.decide(tool, paths=(str(getattr(args, "id", "")),))
    named = named_paths(args)
    paths = tuple(dict.fromkeys([*(_relative(path, roots) for path in named), *resolved]))
    if getattr(args, "runs_code", False):  # debug: rules about commands cannot recognise what runs
        return policy.decide_unknown_program(tool, paths)
    if hasattr(args, "searched"):
        return policy.decide(tool, below=paths)
    return policy.decide(tool, paths=paths)


def named_paths(args: Arguments) -> tuple[str, ...]:
    """The paths that a call names, or the directory that it searches."""
    searched, touched = getattr(args, "searched", None), getattr(args, "touched", None)
    if callable(searched):
        return (searched(),)
    return tuple(touched()) if callable(touched) else ()


def _relative(path: str, roots: Sequence[str]) -> str:
    path = posixpath.normpath(f"/{path}" if path.startswith("//") else path) if path else ""
    for root in roots:
        if path == root or path.startswith(f"{root}/"):
            path = path[len(root) :].lstrip("/")
            break
    return "" if path == "." else path


def summary(args: Arguments) -> str:
    """A call in one line, for the user who must decide."""
    command = getattr(args, "command", None)
    text = command if isinstance(command, str) else args.model_dump_json(exclude_defaults=True)
    if len(text) <= SUMMARY_CHARS:
        return text
    hidden = f"[… {len(text) - SUMMARY_CHARS:,} characters in between are not shown …]"
    return f"{text[: SUMMARY_CHARS // 2]} {hidden} {text[-(SUMMARY_CHARS // 2) :]}"


def _described(decision: Decision) -> str:
    return f"{decision.rule}; {decision.source}" if decision.source else decision.rule


def _refusal(sentence: str, decision: Decision) -> ToolResult:
    data = {"error": "denied", "rule": decision.rule, "rule_source": decision.source}
    return ToolResult(sentence, ok=False, data=data)
