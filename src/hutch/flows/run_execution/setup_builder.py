"""Builds the setup of a run from the session, its sandbox and the settings."""

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from hutch.agent.approval import Answer, Asker, SaveRules
from hutch.agent.model_reply import OnDelta
from hutch.agent.persona import Persona, ReadFile
from hutch.agent.persona_and_tools import Equipment
from hutch.agent.run_setup import RunSetup
from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.system_prompt import describe_session
from hutch.agent.tool_call_rules import Rule
from hutch.agent.tools.interface import Context
from hutch.agent.tools.tool_registry import ToolRegistry
from hutch.agent.tools.toolbox import Toolbox
from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.events import ApprovalRequested, Entry
from hutch.domain.session import Session
from hutch.flows.run_log_reader import start_of
from hutch.llm.interface import Model
from hutch.llm.prices import Prices
from hutch.sessions.live_session import LiveSession
from hutch.snapshots.tree_layout import Leaf
from hutch.workspace.workspace import Workspace

MAX_PIECES = 16  # of a file of the repository that Hutch itself reads


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDefaults:
    """The settings for every run."""

    load_persona: Callable[[str, ToolRegistry, ReadFile], Persona]  # by its name; empty: the default one
    find_persona: Callable[[str, ToolRegistry], Persona]  # of the installation, not of a repository
    prices: Prices = field(default_factory=dict)  # of the user's own
    ignore: tuple[str, ...] = ()  # patterns of files that the agent must not read
    test_command: str | None = None  # detected when not set
    test_timeout_s: float | None = None
    test_memory_bytes: int | None = None

    async def build(
        self, live: LiveSession, session: Session, model: Model, equipment: Equipment, on_delta: OnDelta
    ) -> RunSetup:
        """The setup of a run in a session whose sandbox is open."""
        sandbox, redactor = live.sandbox, live.recorder.redactor
        is_attended = not session.delivery.unattended
        kept = await SavedApprovals(live.dependencies.rows, session.owner).rules()
        approve, save_rules = _approvals(live, session)
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
                test_command=session.delivery.tests or self.test_command,
                test_timeout_s=self.test_timeout_s,
                test_memory_bytes=self.test_memory_bytes,
                ask=live.waits.question if is_attended else None,
                open_output=live.request_handler.open_output,
                working=live.activity.working,
            ),
            limits=equipment.persona.limits_for(session.limits),
            policy=equipment.policy.granted(kept),
            approve=approve if is_attended else None,
            save_rules=save_rules,
            prices=self.prices,
            notes=equipment.notes,
            brief=describe_session(
                "" if session.delivery.titled else session.purpose, session.role, session.expectations
            ),
            on_delta=on_delta,
            inbox=live.inbox,
            leaves_open=lambda: live.leaves_open,
            counts_waiting=session.delivery.once,  # its caller may not be able to answer
        )


def _approvals(live: LiveSession, session: Session) -> tuple[Asker, SaveRules]:
    """The functions that ask users for approval, and that store rules of a permanent approval."""
    by = ""

    async def approve(asked: ApprovalRequested, covers: tuple[Rule, ...]) -> Answer:
        nonlocal by
        answer = await live.waits.approval(asked, covers)
        by = answer.by
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
