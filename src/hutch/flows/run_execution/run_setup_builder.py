"""Builds the setup of a run from the session, its sandbox and the settings."""

import stat
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from itertools import islice

from hutch.agent.model_call import OnDelta
from hutch.agent.persona import Persona, ReadFile
from hutch.agent.run_persona_tools_and_rules import Equipment
from hutch.agent.run_setup import RunSetup
from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.system_prompt import describe_session
from hutch.agent.tool_call_permission_decision import Answer, Asker, NoteDecision, SaveRules
from hutch.agent.tool_call_rules import Decision, Policy, Rule
from hutch.agent.tools.delegate import Helpers
from hutch.agent.tools.interface import Context, LastAuthor, ReadOriginal
from hutch.agent.tools.session_tool_registry import ToolRegistry
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.event_query import EventQuery
from hutch.domain.events import ApprovalRequested, Entry, FileChanged
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.log_entry_audience import WHOLE
from hutch.domain.run_limits import NO_LIMITS, RunLimits
from hutch.domain.session import Session
from hutch.flows.helper_agents.helper_approvals import ask_in_both
from hutch.flows.policies.applicable_policies import Policies
from hutch.flows.run_facts_from_log import start_of
from hutch.llm.interface import Call, Model
from hutch.llm.reply_cost import Prices
from hutch.sessions.live_session import LiveSession
from hutch.snapshots.snapshot_tree_layout import Leaf
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

MAX_PIECES = 16  # of a file of the repository that Hutch itself reads


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefaults:
    """The settings for every run."""

    load_persona: Callable[[str, ToolRegistry, ReadFile], Persona]  # by its name; empty: the default one
    find_persona: Callable[[str, ToolRegistry], Persona]  # of the installation, not of a repository
    policies: Policies  # of owners
    prices: Prices = field(default_factory=dict)  # of the user's own
    ignore: tuple[str, ...] = ()  # patterns of files that the agent must not read

    async def build(
        self,
        live: LiveSession,
        session: Session,
        model: Model,
        equipment: Equipment,
        on_delta: OnDelta,
        *,
        generation: Generation = NO_GENERATION,
        cap: RunLimits = NO_LIMITS,
        helpers: Helpers | None = None,
        root: LiveSession | None = None,
    ) -> RunSetup:
        """The setup of a run. `cap`: limits that it may not exceed; `root`: the root of a helper's tree."""
        sandbox, redactor = live.sandbox, live.recorder.redactor
        is_attended = not session.delivery.unattended  # a helper reports to its parent and asks nothing
        policy = await self._policy(live, session, equipment)
        approve, save_rules = _approvals(live, session, self.policies, root)
        return RunSetup(
            recorder=live.recorder,
            model=model,
            persona=equipment.persona,
            toolbox=Toolbox(equipment.tools, redactor),
            context=Context(
                sandbox.workspace,
                sandbox.jail,
                sandbox.shells,
                redactor=redactor,
                ignore=self.ignore,
                suite_options=await live.suite_options(session),
                tests=live.tests,
                ask=live.waits.question if is_attended and root is None else None,
                open_output=live.request_handler.open_output,
                allowed_commands=sandbox.allowed_commands,
                terminals=live.request_handler.agent_terminals,
                debugger=live.request_handler.agent_debugger,
                working=live.activity.working,
                last_author=_last_author(live),
                helpers=helpers,
                embedder=sandbox.embedder,
                read_original=original_reader(live),
            ),
            limits=equipment.persona.limits_for(session.limits).tightened(cap),
            policy=replace(policy, commands=sandbox.allowed_commands),
            approve=approve if is_attended else None,
            save_rules=save_rules,
            note_decision=_note_decision(live, self.policies),
            prices=self.prices,
            notes=equipment.notes,
            brief=_brief(session),
            on_delta=on_delta,
            inbox=live.inbox,
            extended=live.extended,
            leaves_open=lambda: live.leaves_open,
            counts_waiting=session.delivery.once,  # its caller may not be able to answer
            generation=generation.or_else(session.generation).or_else(equipment.persona.generation),
            agent=session.delivery.agent,
            delivers=session.deliver and not session.delivery.review,
        )

    async def _policy(self, live: LiveSession, session: Session, equipment: Equipment) -> Policy:
        """The rules of a run, with those of the owner and the permanent approvals."""
        kept = await SavedApprovals(live.dependencies.rows, session.owner).rules()
        bindings = await self.policies.agent_bindings(session)
        return equipment.policy.bound(bindings).with_saved(kept)


def _brief(session: Session) -> str:
    purpose = "" if session.delivery.titled else session.purpose
    return describe_session(purpose, session.role, session.expectations, session.company)


def _last_author(live: LiveSession) -> LastAuthor:
    """Finds the author of the newest change of a file in the log. An undo brings an earlier version back, so
    behind one every change counts."""

    async def find(path: str) -> str:
        query = EventQuery(kinds=("file.changed",))
        position: int | None = None
        was_undone = False
        while True:
            found = await live.log.search(live.id, query, WHOLE, after=position, newest_first=True)
            for entry in found.entries:
                change = entry.event
                if not isinstance(change, FileChanged) or change.path != path:
                    continue
                if change.cause in ("undo", "restore"):
                    was_undone = True
                elif change.by != AGENT or not was_undone:
                    return change.by
            position = found.next
            if position is None:
                return ""

    return find


def _note_decision(live: LiveSession, policies: Policies) -> NoteDecision:
    """Writes the decisions of owners' policies into the audit."""

    async def note(call: Call, decision: Decision) -> None:
        await policies.note(live.id, call.tool, decision, ok=decision.action == "ask")

    return note


def _approvals(
    live: LiveSession, session: Session, policies: Policies, root: LiveSession | None
) -> tuple[Asker, SaveRules]:
    """The functions that ask users for approval, and that store rules of a permanent approval."""
    by = ""
    ask = live.waits.approval if root is None else ask_in_both(live, root)

    async def approve(asked: ApprovalRequested, covers: tuple[Rule, ...]) -> Answer:
        nonlocal by
        answer = await ask(asked, covers)
        by = answer.by
        if answer.allowed and not await policies.may_approve(session, by, asked.approvers):
            # An answer to an earlier question with the same id; the role may also have changed since.
            return Answer(allowed=False, by=by, reason=f"only {' and '.join(asked.approvers)} may allow it")
        return answer

    async def save_rules(rules: tuple[Rule, ...]) -> None:  # right after an answer, and one at a time
        await SavedApprovals(live.dependencies.rows, by or session.owner).add(rules)

    return approve, save_rules


def read_at_start(workspace: Workspace, entries: Sequence[Entry]) -> ReadFile:
    """Return a function that reads files as they were at the start of the session.

    So an agent cannot change its own persona by writing to the persona file of its repository.
    """
    start = start_of(entries)
    if start is None:
        return lambda path: _read(workspace, path)
    workspace.pin(workspace.snapshots.get(start).id)
    return lambda path: _read_snapshot(workspace, start, path)


def original_reader(live: LiveSession) -> ReadOriginal:
    """A function that reads small files as they were when the session began."""
    start: int | None = None

    async def read(path: str) -> bytes | None:
        nonlocal start
        workspace = live.sandbox.workspace
        if start is None:
            start = start_of(await live.entries())
        if start is None:
            return await workspace.work(_read, workspace, path)
        return await workspace.work(_read_snapshot, workspace, start, path)

    return read


def _read_snapshot(workspace: Workspace, number: int, path: str) -> bytes | None:
    try:
        item = workspace.snapshots.item(number, path)
        if not isinstance(item, Leaf) or not stat.S_ISREG(item.mode):
            return None
        return b"".join(islice(workspace.snapshots.read(number, path), MAX_PIECES))
    except (NotFound, BadRequest):
        return None


def _read(workspace: Workspace, path: str) -> bytes | None:
    try:
        return workspace.files.read_bytes(path)[0]
    except (BadRequest, Denied):  # it does not exist or cannot be read
        return None
