"""Finds the question that an answer belongs to."""

import asyncio

from hutch.domain.errors import Conflict, Denied
from hutch.domain.events import (
    AnyEvent,
    ApprovalAnswered,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
)
from hutch.domain.log_entry_audience import Reader, filter_entry
from hutch.domain.one_line_text import echo
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.sessions.approval_extension_to_session import NOT_ALLOWED_ONCE, find_allowed_once
from hutch.store.sessions import Sessions

Question = ApprovalRequested | QuestionAsked
RECENT = 5000  # events that are searched for a question
POLL_INTERVAL_S = 0.02
MAX_WAIT_S = 5.0  # from the question in the log until its session waits


async def find_question(services: Services, reader: Reader, session: Session, call_id: str) -> Question:
    """The open question of an answer. Without one the answer is refused: a reader cannot approve a call
    before seeing it."""
    asked: Question | None = None
    if session.state in ("running", "waiting"):
        asked = await _find_question(services, reader, session, call_id)
        if asked is None:
            raise Conflict(
                f"No question {echo(call_id, 80)} waits for an answer in the session {session.id}."
            )
        session = await _once_waiting(services, session)
    if asked is None or session.state != "waiting":
        raise Conflict(f"Nothing in the session {session.id} waits for an answer; it is {session.state}.")
    return asked


async def check_may_approve(services: Services, who: Caller, session: Session, question: Question) -> None:
    """Refuse an approval by a user whose role the policy that asks does not name."""
    if not isinstance(question, ApprovalRequested):
        return
    if not await services.policies.may_approve(session, who.user.id, question.approvers):
        may = " or ".join(question.approvers)
        rule = f"{question.rule} ({question.source})"
        raise Denied(f"{who.user.name} may not allow this; {may} may. Rule: {rule}.")


async def find_extendable(services: Services, reader: Reader, session: Session, call_id: str) -> Question:
    """The request for approval of a call that was allowed once, and can be allowed for the session."""
    head = await services.log.head(session.id)
    after = max(0, head.seq - RECENT)
    events: list[AnyEvent] = []
    while page := await services.log.read(session.id, after=after):
        after = page[-1].seq
        events += [filter_entry(entry, reader).event for entry in page]
    found = find_allowed_once(events, call_id)
    if found is None:
        raise Conflict(NOT_ALLOWED_ONCE.format(echo(call_id, 80)))
    return found


async def _once_waiting(services: Services, session: Session) -> Session:
    """Wait for the state `waiting`. The question is in the log a moment earlier, and a program may answer it
    within that moment."""
    looks = int(MAX_WAIT_S / POLL_INTERVAL_S)
    while session.state == "running" and looks > 0:
        await asyncio.sleep(POLL_INTERVAL_S)
        session, looks = await Sessions(services.rows).get(session.id), looks - 1
    return session


async def _find_question(
    services: Services, reader: Reader, session: Session, call_id: str
) -> Question | None:
    """The question in the log, if neither an answer nor the end of its run follows."""
    head = await services.log.head(session.id)
    after = max(0, head.seq - RECENT)
    asked: Question | None = None
    while page := await services.log.read(session.id, after=after):
        after = page[-1].seq
        for entry in page:
            match filter_entry(entry, reader).event:
                case ApprovalRequested() | QuestionAsked() as question if question.call_id == call_id:
                    asked = question
                case ApprovalAnswered(call_id=id) | QuestionAnswered(call_id=id) if id == call_id:
                    asked = None
                case RunEnded():
                    asked = None
    return asked
