"""Interviews as rows, and their steps: the events, the row and all shares, in one transaction."""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import BindParameter, Connection, RowMapping, bindparam, delete, insert, or_, select, update

from hutch.domain.errors import NotFound
from hutch.domain.events import Event
from hutch.domain.ids import SessionId
from hutch.domain.interview import Interview, InterviewClock, InterviewWorkspace, Phase
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.one_line_text import echo
from hutch.domain.session import Session
from hutch.domain.user import SHARE_SCOPES, ShareRole, ShareScope
from hutch.store.event_log_interface import EventLog
from hutch.store.interview_tables import interview_workspaces, interviews
from hutch.store.outgoing_webhooks import queue_messages
from hutch.store.schema import sessions, shares
from hutch.store.session_creation import OpenedSession
from hutch.store.sessions import add_session
from hutch.store.shares import IS_VALID, set_share, shared_with
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

COLUMNS = ("id", "owner", "phase", "sealed", "created_ms", "version")
# A program of the candidate could take a request to its preview as a command.
WITHOUT_PREVIEWS: tuple[ShareScope, ...] = tuple(scope for scope in SHARE_SCOPES if scope != "previews")
WITHOUT_AI: tuple[ShareScope, ...] = tuple(scope for scope in SHARE_SCOPES if scope != "prompt")

# Built once: heartbeats of candidates use them, and each tick of the watcher.
_IS_INTERVIEW = interviews.c.id == bindparam("interview")
_FIND = select(interviews).where(_IS_INTERVIEW)
_SEEN = select(interviews.c.seen_ms).where(_IS_INTERVIEW)
_AT_MS: BindParameter[int] = bindparam("at_ms")
_NOTE_SEEN = update(interviews).where(_IS_INTERVIEW, interviews.c.seen_ms < _AT_MS).values(seen_ms=_AT_MS)
_WORKSPACES = (
    select(interview_workspaces)
    .where(interview_workspaces.c.interview == bindparam("interview"))
    .order_by(interview_workspaces.c.number, interview_workspaces.c.session_id)
)


class _Outdated(Exception):
    """The row is no longer as it was read."""


class Interviews:
    """Reads interviews."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def find(self, interview_id: str) -> Interview | None:
        named = {"interview": interview_id}
        row = await self._rows.fetch(lambda db: db.execute(_FIND, named).mappings().first())
        return None if row is None else _read(row)

    async def get(self, interview_id: str) -> Interview:
        found = await self.find(interview_id)
        if found is None:
            raise NotFound(f"There is no interview {echo(interview_id, 80)}.")
        return found

    async def page(
        self, *, user_id: str | None, phases: Collection[Phase] = (), before: str = "", limit: int = 50
    ) -> list[Interview]:
        """Interviews that a user owns or has a role in, newest first; with None, all."""
        statement = select(interviews).order_by(interviews.c.id.desc()).limit(limit)
        if user_id is not None:
            shared = shared_with(user_id)
            statement = statement.where(or_(interviews.c.owner == user_id, interviews.c.id.in_(shared)))
        if phases:
            statement = statement.where(interviews.c.phase.in_(phases))
        if before:
            statement = statement.where(interviews.c.id < before)
        found = await self._rows.fetch(lambda db: db.execute(statement).mappings().all())
        return [_read(row) for row in found]

    async def unfinished(self, ids: Collection[str] | None = None) -> list[Interview]:
        """Those, of these or of all, whose clock may run, or whose workspaces are not all ended."""
        here = interviews.c.phase.in_(["running", "paused"]) | (
            interviews.c.phase.in_(["ended", "closed"]) & interviews.c.sealed.is_(False)
        )
        statement = select(interviews).where(here)
        if ids is not None:
            statement = statement.where(interviews.c.id.in_(ids))
        found = await self._rows.fetch(lambda db: db.execute(statement).mappings().all())
        return [_read(row) for row in found]

    async def workspaces(self, interview_id: str) -> list[InterviewWorkspace]:
        """In the order of their questions."""
        return await self._rows.fetch(lambda db: _workspaces(db, interview_id))

    async def of_workspace(self, session_id: str) -> str | None:
        """The id of the interview that a session belongs to."""
        statement = select(interview_workspaces.c.interview).where(
            interview_workspaces.c.session_id == session_id
        )
        return await self._rows.fetch(lambda db: db.scalar(statement))

    async def of_sessions(self, session_ids: Collection[str]) -> dict[str, str]:
        """The id of the interview of each session that is a room or a workspace."""
        workspaces = interview_workspaces.c
        work = select(workspaces.session_id, workspaces.interview).where(
            workspaces.session_id.in_(session_ids)
        )
        rooms = select(interviews.c.id, interviews.c.id).where(interviews.c.id.in_(session_ids))
        found = await self._rows.fetch(lambda db: db.execute(work.union_all(rooms)).all())
        return {row[0]: row[1] for row in found}

    async def seen_ms(self, interview_id: str) -> int:
        """The last sign of the candidate; 0 before the first."""
        return await self._rows.fetch(lambda db: db.scalar(_SEEN, {"interview": interview_id})) or 0

    async def note_seen(self, interview_id: str, at_ms: int) -> None:
        named = {"interview": interview_id, "at_ms": at_ms}
        await self._rows.change(lambda db: db.execute(_NOTE_SEEN, named))

    async def update_shares(self, interview_id: str) -> None:
        """Give those who have joined the room the access to its workspaces."""
        await self._rows.change(lambda db: _update_current_shares(db, interview_id))


async def open_interview(log: EventLog, room: Session, interview: Interview, events: Sequence[Event]) -> None:
    """Write the room, the interview and the start of its log, or nothing."""

    def add(db: Connection) -> None:
        add_session(db, room)
        db.execute(insert(interviews).values(**_values(interview), seen_ms=0))
        queue_messages(db, interview, events)

    await log.append(room.id, events, also=add)


async def store_step(
    log: EventLog, before: Interview, after: Interview, events: Sequence[Event]
) -> Interview | None:
    """Write the events, the row and the shares that follow from it, or nothing. None if another step was
    stored since `before` was read."""
    after = replace(after, version=before.version + 1)

    def write(db: Connection) -> None:
        same = (interviews.c.id == before.id, interviews.c.version == before.version)
        if not db.execute(update(interviews).where(*same).values(_values(after))).rowcount:
            raise _Outdated
        _update_shares(db, after)
        queue_messages(db, after, events)
        if after.phase == "closed":
            db.execute(update(sessions).where(sessions.c.id == after.id).values(state="ended"))

    try:
        await log.append(before.id, events, also=write)
    except _Outdated:
        return None
    return after


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """Adds a workspace to its interview, in the transaction that opens its session."""

    interview_id: SessionId
    number: int
    question: str
    language: str
    digest: str

    def write(self, connection: Connection, made: OpenedSession) -> None:
        connection.execute(
            insert(interview_workspaces).values(
                interview=self.interview_id,
                number=self.number,
                language=self.language,
                session_id=made.session.id,
                question=self.question,
                digest=self.digest,
            )
        )
        _update_current_shares(connection, self.interview_id)


def _update_current_shares(db: Connection, interview_id: str) -> None:
    """With the row of this transaction: one that was read before may be outdated."""
    row = db.execute(select(interviews).where(interviews.c.id == interview_id)).mappings().first()
    if row is not None:
        _update_shares(db, _read(row))


def _update_shares(db: Connection, interview: Interview) -> None:
    """Recompute the shares of all workspaces from the roles in the room and the state of the interview."""
    here = (shares.c.session_id == interview.id, IS_VALID)
    roles = db.execute(select(shares.c.user_id, shares.c.role).where(*here)).all()
    for workspace in _workspaces(db, interview.id):
        wanted: dict[str, tuple[ShareRole, tuple[ShareScope, ...]]] = {}
        for user_id, role in roles:
            if role == "assessor":
                wanted[user_id] = _assessor_share(interview, workspace)
            elif role == "observer":
                wanted[user_id] = (role, ())
            elif user_id == interview.candidate and (share := _candidate_share(interview, workspace)):
                wanted[user_id] = share
        mine = (shares.c.session_id == workspace.session_id, shares.c.created_by == interview.id)
        db.execute(delete(shares).where(*mine, shares.c.user_id.not_in(list(wanted))))
        for user_id, (role, scopes) in wanted.items():
            set_share(db, workspace.session_id, user_id, role, interview.id, scopes)


def _assessor_share(
    interview: Interview, workspace: InterviewWorkspace
) -> tuple[ShareRole, tuple[ShareScope, ...]]:
    """See all workspaces, and edit the documents of the current one until the interview ends."""
    is_open = interview.phase in ("running", "paused") and workspace.session_id == interview.workspace
    return "assessor", ("files",) if is_open else ()


def _candidate_share(
    interview: Interview, workspace: InterviewWorkspace
) -> tuple[ShareRole, tuple[ShareScope, ...]] | None:
    """Work in the current workspace while the clock runs; read it during a pause, and all at the end."""
    if interview.phase in ("ended", "closed"):
        return ("observer", ()) if workspace.number <= interview.number else None
    if workspace.session_id != interview.workspace:
        return None
    if interview.phase == "paused":
        return "observer", WITHOUT_PREVIEWS
    return "candidate", SHARE_SCOPES if interview.plan.ai else WITHOUT_AI


def _workspaces(db: Connection, interview_id: str) -> list[InterviewWorkspace]:
    found = db.execute(_WORKSPACES, {"interview": interview_id}).mappings()
    return [InterviewWorkspace(**row) for row in found]


def _values(interview: Interview) -> dict[str, Any]:
    values = asdict(replace(interview, plan=None))  # type: ignore[arg-type]  # it is written by itself
    columns = {name: values.pop(name) for name in COLUMNS}
    values.pop("plan")
    return {**columns, "plan": interview.plan.model_dump_json(), "progress": json.dumps(values)}


def _read(row: RowMapping) -> Interview:
    progress = json.loads(row["progress"])
    clock = InterviewClock(**progress.pop("clock"))
    progress["untested"] = tuple(progress["untested"])
    plan = InterviewPlan.model_validate_json(row["plan"])
    columns = {name: row[name] for name in COLUMNS}
    return Interview(**{**progress, **columns, "id": SessionId(row["id"]), "plan": plan, "clock": clock})
