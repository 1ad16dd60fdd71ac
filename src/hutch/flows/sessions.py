"""Opens, lists and forks sessions for callers, and passes inputs to them.

Every function checks the permission of its caller. Requests return quickly: they are stored, and
a worker performs them when it has capacity.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from hutch.domain.errors import Conflict, HutchError, NotFound
from hutch.domain.events import ConversationCopied, RunQueued, SessionOpened
from hutch.domain.ids import new_run_id
from hutch.domain.inputs import (
    Answer,
    Approve,
    Cancel,
    Deny,
    End,
    Extend,
    Input,
    Message,
    Pause,
    Prompt,
    Redo,
    Resume,
    Undo,
)
from hutch.domain.log_entry_audience import Reader, filter_input
from hutch.domain.one_line_text import echo
from hutch.domain.session import NewSession, QueuedRun, Session, SessionInput, SessionState
from hutch.domain.trace_id import trace_id
from hutch.domain.user import Caller, ShareScope
from hutch.flows.agent_question_lookup import check_may_approve, find_extendable, find_question
from hutch.flows.candidate_input_restrictions import check_candidate_input
from hutch.flows.command_limits_and_sources import EffectiveLimit
from hutch.flows.flow_services import Services
from hutch.flows.member_session_caps import is_capped
from hutch.flows.new_session_validation import check_request
from hutch.flows.preferences import with_preferences
from hutch.flows.session_from_request import check_lines, make_session
from hutch.flows.session_permissions import Action, check, check_may_open, check_scope, no_session, reader
from hutch.forge.repo_url import parse_repo_url
from hutch.sessions.file_and_command_requests import CheckUndo
from hutch.sessions.refusals_without_jail import refuse_room, works_in_place
from hutch.store.event_log_interface import Head
from hutch.store.interviews import Interviews
from hutch.store.run_queue import Runs
from hutch.store.session_bulk_queries import BulkQueries
from hutch.store.session_creation import OpenedSession, open_session
from hutch.store.session_inputs import Inputs, session_has_ended
from hutch.store.sessions import Sessions
from hutch.store.shares import Share, Shares
from hutch.store.table_access_interface import ExtraWrite
from hutch.system.lazy_dataclass import dataclass

ANSWERS_A_QUESTION = (Approve, Deny, Answer)
STOPS = (Cancel, Pause, End)
BEGINS_WORK = (Message, Prompt, Resume)
MAX_UNPROCESSED = 500  # inputs of a session
MORE_TO_STOP = 50  # further inputs that stop a session: a full queue must not prevent its end
BUSY: tuple[SessionState, ...] = ("running", "waiting")


@dataclass(frozen=True, slots=True)
class Shown:
    """A session for display, with its place in the queue, its last run and its last delivery."""

    session: Session
    head: Head
    queue_position: int | None = None  # when it waits: 1 is next
    delivered: QueuedRun | None = None  # the newest run with a delivery
    last_run: QueuedRun | None = None  # the newest run that has ended
    interview: str = ""  # the id of the interview whose room or workspace it is


async def allowed(
    services: Services,
    who: Caller,
    session: Session | str,
    action: Action = "read",
    *,
    scope: ShareScope | None = None,
) -> Session:
    """The session, if the caller may take this action, and their share includes the scope. Callers that may
    not see it get a 404."""
    if isinstance(session, str):
        session_id = session
        try:
            session = await Sessions(services.rows).get(session_id)
        except NotFound:  # the same message as for a session that the caller may not see
            raise no_session(session_id) from None
    share = await _share(services, who, session)
    role, scopes = (share.role, share.scopes) if share else (None, ())
    check(who, session.id, session.owner, role, action, scopes)
    if scope is not None and share is not None:
        check_scope(share, scope)
    return session


async def reader_of(services: Services, who: Caller, session: Session) -> Reader:
    """A caller who may see this session, as a reader of its log."""
    share = await _share(services, who, session)
    return reader(who, session.owner, share.role if share else None)


async def _share(services: Services, who: Caller, session: Session) -> Share | None:
    if who.is_owner or session.owner == who.user.id:
        return None
    share = await Shares(services.rows).find(session.id, who.user.id)
    while share is None and session.parent:  # the share of a session covers its helpers
        session = await Sessions(services.rows).get(session.parent)
        share = await Shares(services.rows).find(session.id, who.user.id)
    return share


async def may_write(services: Services, who: Caller, session: Session) -> bool:
    """False for callers who may only read the session: secrets in its files are hidden from them."""
    try:
        await allowed(services, who, session, "input")
    except HutchError:
        return False
    return True


async def create(
    services: Services,
    who: Caller,
    new: NewSession,
    *,
    also: ExtraWrite[OpenedSession] | None = None,
) -> Session:
    """Open a session. The next free worker prepares its workspace and starts its first prompt."""
    return (await create_with_run(services, who, new, also=also)).session


async def check_new(services: Services, who: Caller, new: NewSession) -> None:
    """Refuse what `create` would refuse, and open nothing."""
    check_may_open(who)
    check_lines(new)
    await check_request(services, who, await with_preferences(services, who, new))


async def create_with_run(
    services: Services,
    who: Caller,
    new: NewSession,
    *,
    forked_from: str = "",
    conversation: Sequence[ConversationCopied] = (),
    also: ExtraWrite[OpenedSession] | None = None,
) -> OpenedSession:
    """Open a session. Returns its first run too, for callers that follow it."""
    check_may_open(who)
    check_lines(new)
    address = ""  # with credentials, which the command line allows; they are stored in no row
    if services.reserved_for and new.repository and (url := parse_repo_url(new.repository)).credentials:
        address, new = new.repository, replace(new, repository=url.address)
        user, password = url.credentials
        services.redactor.add_values([password or user])
    if not forked_from:
        new = await check_request(services, who, await with_preferences(services, who, new))
    session = make_session(new, who, services.redactor.redact, forked_from)
    run = QueuedRun(
        id=new_run_id(),
        session_id=session.id,
        owner=session.owner,
        kind="prompt" if new.prompt else "prepare",
        prompt=services.redactor.redact(new.prompt),
        worker=services.reserved_for,
        queued_ms=session.created_ms,
        trace_id=trace_id(),
    )
    texts = {name: getattr(session, name) for name in ("purpose", "owner", "role", "company", "expectations")}
    names = tuple(name for name, _ in session.variables)
    began = SessionOpened(**texts, variables=names, secrets=session.secrets)
    queued = [RunQueued(run_id=run.id, prompt=run.prompt, by=who.user.id)] if new.prompt else []
    if address:
        services.addresses[session.id] = address
    opened = OpenedSession(session, run)
    try:
        if new.files:  # first: a crash leaves files without a session, which are removed later
            await asyncio.to_thread(services.staged.store, session.id, new.files)
        await open_session(services.log, opened, [began, *conversation, *queued], also)
    except HutchError:  # not after a cancellation: the session may exist then
        await asyncio.to_thread(services.staged.remove, session.id)
        raise
    await services.host.input(session.id)
    return opened


async def show(services: Services, who: Caller, session_id: str) -> Shown:
    session, heads = await asyncio.gather(
        allowed(services, who, session_id), BulkQueries(services.rows).heads([session_id])
    )
    if session.id not in heads:  # it is being removed
        raise no_session(session_id)
    return (await _shown(services, [session], heads))[0]


async def effective_limits(services: Services, session: Session) -> Sequence[EffectiveLimit]:
    """The limits of a session's commands, and where each comes from."""
    capped = await is_capped(services.rows, session)
    return await asyncio.to_thread(services.effective_limits, session, capped)


async def page(
    services: Services,
    who: Caller,
    *,
    states: Collection[SessionState] = (),
    text: str = "",
    before: str = "",
    limit: int = 50,
    interviews: bool = True,
    helpers: bool = True,
    parent: str = "",
) -> list[Shown]:
    """The sessions that the caller may see, newest first; those of interviews and helpers only if wanted.
    With `parent`, the helpers of that session."""
    user_id = None if who.is_owner or parent else who.user.id
    if parent:  # who sees it may see its helpers
        parent = (await allowed(services, who, parent)).id
    found = await Sessions(services.rows).page(
        user_id=user_id,
        states=states,
        text=text,
        before=before,
        limit=limit,
        interviews=interviews,
        helpers=helpers,
        parent=parent,
    )
    return await _shown(services, found, await BulkQueries(services.rows).heads([each.id for each in found]))


async def give(
    services: Services,
    who: Caller,
    session_id: str,
    asked: Input,
    *,
    by: str = "",
    also: ExtraWrite[SessionInput] | None = None,
) -> SessionInput:
    """Give an input to a session. It is stored when this returns; the log has its effects. With `by`, the
    log names another author than the caller, whose rights are used."""
    session = await allowed(services, who, session_id, "input", scope="prompt")
    check_candidate_input(await _share(services, who, session), asked)
    _check_fits(services, session, asked)
    audience: str | None = None
    if isinstance(asked, ANSWERS_A_QUESTION):  # the answer has the same audience as its question
        reader = await reader_of(services, who, session)
        question = await find_question(services, reader, session, asked.call_id)
        audience = question.audience
        if isinstance(asked, Approve):
            await check_may_approve(services, who, session, question)
    if isinstance(asked, Extend):
        reader = await reader_of(services, who, session)
        question = await find_extendable(services, reader, session, asked.call_id)
        await check_may_approve(services, who, session, question)
    if isinstance(asked, Undo | Redo):
        step = asked.step if isinstance(asked, Undo) else 0
        check = CheckUndo(step, is_redo=isinstance(asked, Redo), resolves=asked.mode != "refuse")
        await _check_undo(services, session, check, who.user.id)
    if isinstance(asked, BEGINS_WORK):
        await services.log.check_can_record(session.id)
    if isinstance(asked, Prompt) and asked.generation is not None:
        options = asked.generation.to_generation().or_else(session.generation)
        user_id = who.user.id
        await asyncio.to_thread(services.check_model, session.model, session.persona, user_id, options)
    body = _cleaned(asked, services.redactor.redact).model_dump_json()
    max_unprocessed = MAX_UNPROCESSED + (MORE_TO_STOP if isinstance(asked, STOPS) else 0)
    given = await Inputs(services.rows).add(
        session.id,
        by or who.user.id,
        body,
        max_unprocessed=max_unprocessed,
        audience=audience,
        also=also,
        rates=services.rates,
    )
    await services.host.input(session.id)
    return given


async def _check_undo(services: Services, session: Session, asked: CheckUndo, by: str) -> None:
    """Raise if an undo is not possible. One that takes long is checked when it is processed instead, so that
    its sender is answered; then `input.processed` says why it was refused."""
    checking = asyncio.ensure_future(services.host.call(session.id, asked, by=by))
    try:
        await asyncio.wait([checking], timeout=services.max_check_s)
    finally:
        if not checking.done():
            checking.cancel()
            checking.add_done_callback(lambda done: done.cancelled() or done.exception())
    if checking.done():
        await checking


async def inputs(
    services: Services, who: Caller, session_id: str, *, after: int = 0, limit: int = 1000
) -> list[SessionInput]:
    """The inputs of a session, as this caller may see them."""
    session = await allowed(services, who, session_id)
    reader = await reader_of(services, who, session)
    found = await Inputs(services.rows).page(session.id, after=after, limit=limit)
    return [filter_input(given, reader) for given in found]


async def runs_of(services: Services, session_id: str, given: Sequence[SessionInput]) -> dict[int, str]:
    """The ids of the runs that inputs of a session have started so far, by input."""
    return await Runs(services.rows).of_inputs(session_id, [each.seq for each in given])


async def runs(
    services: Services, who: Caller, session_id: str, *, before: str = "", limit: int = 50
) -> list[QueuedRun]:
    session = await allowed(services, who, session_id)
    return await Runs(services.rows).page(session_ids=[session.id], before=before, limit=limit)


async def run(services: Services, who: Caller, run_id: str) -> QueuedRun:
    """A run of a session that the caller may see."""
    found = await Runs(services.rows).get(run_id)
    try:
        await allowed(services, who, found.session_id)
    except NotFound:
        raise NotFound(f"There is no run {echo(run_id, 80)}.") from None
    return found


def _cleaned(asked: Input, clean: Callable[[str], str]) -> Input:
    """The input without secrets in its texts, which all viewers of the session see."""
    said = {name: clean(getattr(asked, name)) for name in ("text", "reason") if hasattr(asked, name)}
    return asked.model_copy(update=said)


def _check_fits(services: Services, session: Session, asked: Input) -> None:
    """Refuse an input that does not fit the session's state."""
    if session.state == "ended":
        raise session_has_ended(session.id)
    refuse_room(session)
    if session.delivery.in_place and not services.opens_in_place:
        raise works_in_place(session)
    if isinstance(asked, Undo | Redo) and session.state in BUSY:
        raise Conflict(f"The session {session.id} is {session.state}. Cancel or pause its run first.")
    if isinstance(asked, Resume) and session.state != "paused":
        raise Conflict(f"The session {session.id} is not paused; it is {session.state}.")


async def _shown(services: Services, found: Sequence[Session], heads: Mapping[str, Head]) -> list[Shown]:
    ids = [each.id for each in found]
    places = await Runs(services.rows).places([each.id for each in found if each.state == "queued"])
    delivered = await Runs(services.rows).last_delivered(ids)
    ended = await Runs(services.rows).last_ended(ids)
    rooms = await Interviews(services.rows).of_sessions(ids)
    return [
        Shown(each, heads[id], places.get(id), delivered.get(id), ended.get(id), rooms.get(id, ""))
        for id, each in zip(ids, found, strict=True)
        if id in heads
    ]
