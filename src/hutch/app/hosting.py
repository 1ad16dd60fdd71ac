"""How the sessions of a server are made ready, opened and worked on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from hutch.agent.approval import Answer, Approvals
from hutch.agent.limits import RunLimits
from hutch.agent.policy import Rule
from hutch.app import forges, models, reviewing, workspaces
from hutch.app.ahead import Ahead
from hutch.app.approvals import kept_approvals
from hutch.app.benches import make_bench
from hutch.app.deliverable import must_be_deliverable
from hutch.app.delivering import Delivering
from hutch.app.desks import open_desk
from hutch.app.session_network import session_network
from hutch.domain.clean_stream import CleanStream
from hutch.domain.errors import BadRequest, HutchError
from hutch.domain.events import (
    ApprovalAsked,
    Entry,
    Event,
    ModelReplied,
    RunEnded,
    RunStarted,
    SessionWoken,
    StepReached,
)
from hutch.domain.ids import SessionId
from hutch.domain.redaction import Redactor
from hutch.domain.session import QueuedRun, Session
from hutch.flows import ai_review, handing_over
from hutch.flows.code_change import begin, go_on
from hutch.flows.terms import Terms
from hutch.forge.progress import Progress
from hutch.llm import seam as llm
from hutch.llm.price import is_priced, parse_prices, unpriced
from hutch.sessions.channel import Channels
from hutch.sessions.desk import Desk
from hutch.sessions.giving_up import DELIVERED, UNDONE, first_end, tell_undelivered
from hutch.sessions.grounds import Done, Grounds, Prepared, Ways
from hutch.sessions.host import Bounds, LocalHost
from hutch.sessions.live import Live
from hutch.sessions.rewind import still_told
from hutch.sessions.seam import Delta
from hutch.settings import Loaded
from hutch.store.log import SqlLog
from hutch.store.runs import Room

logger = structlog.get_logger()


@asynccontextmanager
async def local_host(
    loaded: Loaded, log: SqlLog, redactor: Redactor, *, reserved_for: str = "", jobs: int = 0
) -> AsyncIterator[LocalHost]:
    """Sessions that live in this process, for as long as the block lasts.

    With `reserved_for` they are those of a command, and as many `jobs` at a time as it wants.
    """
    settings = loaded.settings.sessions
    room = Room(jobs, jobs) if jobs else Room(settings.runs, settings.runs_per_user)
    hosted: list[LocalHost] = []
    channels = Channels(log)
    ahead = Ahead()

    @asynccontextmanager
    async def desk_of(session: Session, workspace_id: str) -> AsyncIterator[Desk]:
        network = await session_network(loaded, log, session)
        async with open_desk(loaded, workspace_id, network=network) as desk:
            yield desk

    async def prepare(session: Session) -> Prepared:
        made = await _prepare(loaded, session, hosted[0], grounds)
        ahead.begin(made.workspace_id, desk_of(session, made.workspace_id))
        return made

    ways = Ways(
        prepare=prepare,
        open_desk=lambda session: ahead.desk(
            session.workspace_id, lambda: desk_of(session, session.workspace_id)
        ),
        perform=lambda live, run: _perform(loaded, live, run),
    )
    grounds = Grounds(log, log, redactor, channels, ways, reserved_for)
    host = LocalHost(
        grounds,
        Bounds(
            runs=room,
            open=settings.open,
            idle_s=settings.idle_s,
            lease_ms=settings.lease_s * 1000,
        ),
    )
    hosted.append(host)
    await host.start()
    try:
        yield host
    finally:
        await host.close_all()
        await ahead.close()


async def _prepare(loaded: Loaded, session: Session, host: LocalHost, grounds: Grounds) -> Prepared:
    """A workspace for a session: of its repository, of another session, or with nothing in it.

    A server that was killed may have made it, and not noted that.
    """
    id = workspaces.session_name(session.id)
    if made := await workspaces.find(loaded, id):
        return Prepared(made.id, made.source or "", made.commit or "")
    if session.forked_from:
        source, _, number = session.forked_from.partition("@")
        async with host.desk(SessionId(source)) as desk:
            record = await workspaces.fork_workspace(desk.workspace, int(number), id)
    elif session.repository:
        wanted = session.delivery
        record = await workspaces.prepare_workspace(
            loaded,
            await forges.reachable(loaded, grounds.address_of(session), **await _rights(grounds, session)),
            id=id,
            revision=session.revision or None,
            uncommitted=wanted.uncommitted,
            plain=wanted.plain_directory,
            on_progress=partial(_tell_progress, grounds.channels, session.id),
        )
    else:
        record = await workspaces.prepare_empty(loaded, id=id)
    return Prepared(record.id, record.source or "", record.commit or "")


async def _rights(grounds: Grounds, session: Session) -> dict[str, Any]:
    """Whose credentials may be used for a session's repository, and whether it may be anywhere."""
    account = await forges.may_use_account(grounds.rows, session.owner)
    return {"user": session.owner if grounds.guarded else "", "guarded": grounds.guarded, "account": account}


def _tell_progress(channels: Channels, session_id: SessionId, progress: Progress) -> None:
    total = f"/{progress.total:,}" if progress.total else ""
    channels.tell(session_id, Delta("", 0, "progress", f"{progress.step} {progress.done:,}{total}"))


async def _perform(loaded: Loaded, live: Live, run: QueuedRun) -> Done:
    """A prompt is worked on, or taken up again where it was; what was done goes to the repository."""
    session = await live.sessions.get(live.id)
    whole = await live.entries()
    entries = still_told(whole)
    if undone := _undone(whole, entries, run.id):
        await tell_undelivered(live, whole, run.id, UNDONE)
        return undone
    ended = first_end(entries, run.id)
    if ended is None:
        ended = await _work(loaded, live, session, run, entries)
    if session.delivery.review:
        if ended.outcome in ai_review.FINISHED:
            await reviewing.give(loaded, live, session, run)
    elif session.deliver and (ended.outcome in DELIVERED or handing_over.read(entries, run.id).failing):
        await Delivering(loaded, live, session, run, ended).go()
    return Done(ended.outcome, ended.reason)


def _undone(whole: Sequence[Entry], told: Sequence[Entry], run_id: str) -> Done | None:
    """What became of a run that was undone since: no model hears of that again, and nobody gets it."""

    def begun(entries: Sequence[Entry]) -> bool:
        events = (entry.event for entry in entries)
        return any(isinstance(each, RunStarted | RunEnded) and each.run_id == run_id for each in events)

    if begun(told) or not begun(whole):
        return None
    ended = first_end(whole, run_id)
    return Done(ended.outcome, ended.reason) if ended else Done("cancelled", UNDONE)


def woken_since(entries: Sequence[Entry]) -> bool:
    """Whether the shells are not those of the run before: the session was parked, or its server killed."""
    kinds = [entry.event.type for entry in entries if isinstance(entry.event, RunStarted | SessionWoken)]
    return "run.started" in kinds and kinds[-1] == "session.woken"


async def _work(
    loaded: Loaded, live: Live, session: Session, run: QueuedRun, entries: Sequence[Entry]
) -> RunEnded:
    begun = any(isinstance(each.event, RunStarted) and each.event.run_id == run.id for each in entries)
    if session.deliver and not begun:
        await _look_ahead(loaded, live, session)
    record = Path(session.delivery.record) if session.delivery.record else None
    wanted = session.model or loaded.settings.model
    if session.limits.cost_usd is not None and wanted and (problem := await _unpriced(loaded, wanted)):
        raise BadRequest(problem)
    model, choice = await models.choose_model(loaded, wanted, record=record)
    try:
        limits = RunLimits(**asdict(session.limits))
        bench = make_bench(
            loaded,
            live.desk,
            live.id,
            live.log,
            model,
            persona=session.persona or None,
            limits=limits,
            entries=entries,
        )
        said = bench.persona.limits.tightened(bench.persona.repository_limits).cost_usd
        if said is not None and not begun and (problem := await _unpriced(loaded, model.name)):
            await live.append([StepReached(step="looking", message=f"warning: {problem}")])
        network = await session_network(loaded, live.grounds.rows, session)
        bench.terms = Terms(
            network=network,
            limits=limits,
            record=session.delivery.record,
            deliver=session.deliver,
            author=session.delivery.author,
            model_reason=choice.reason,
        )
        channels = live.grounds.channels

        def tell(delta: Delta) -> None:
            channels.tell(live.id, delta, after=bench.last_seq)

        telling = _Telling(run.id, bench.redactor, tell)

        def on_event(event: Event) -> None:
            telling.event(event)
            live.happened(event)

        bench.on_delta, bench.on_event = telling.piece, on_event
        bench.context.open_output = live.serving.open_output
        bench.context.test_command = session.delivery.tests or bench.context.test_command
        bench.context.ask = None if session.delivery.unattended else live.waits.question
        bench.counts_waiting = session.delivery.once  # its caller may not be able to answer
        await _with_kept(loaded, live, session, bench.approvals)
        bench.inbox, bench.leaves_open = live.inbox, lambda: live.leaves_open
        prompt = run.prompt
        if session.delivery.review:
            prompt = await reviewing.equip(loaded, live.grounds, bench, session, run, entries, limits)
        if begun:
            return (await go_on(bench, run.id, entries)).ended
        reopened = woken_since(await live.entries())
        return (await begin(bench, run.id, prompt, entries, reopened=reopened)).ended
    finally:
        await model.close()


async def _unpriced(loaded: Loaded, model: str) -> str:
    """Why money cannot be a limit for a model; empty when its price is known."""
    prices = parse_prices(loaded.settings.models.prices)
    return "" if await asyncio.to_thread(is_priced, model, prices) else unpriced(model)


async def _look_ahead(loaded: Loaded, live: Live, session: Session) -> None:
    """Nobody is to work on what could not be delivered."""
    warning = await must_be_deliverable(
        loaded,
        live.desk.workspace,
        address=live.grounds.address_of(session),
        once=session.delivery.once,
        **await _rights(live.grounds, session),
    )
    if warning:
        logger.warning("session.no_pull_request", session_id=session.id, problem=warning)
        await live.append([StepReached(step="looking", message=f"warning: {warning}")])


async def _with_kept(loaded: Loaded, live: Live, session: Session, approvals: Approvals) -> None:
    """What the session's owner has allowed always holds; what somebody allows always is kept for them."""
    own = "" if not live.grounds.guarded else session.owner  # the file of the user of this machine
    kept = kept_approvals(loaded.paths, own)
    approvals.policy = approvals.policy.granted(await asyncio.to_thread(kept.rules))
    by = ""

    async def ask(asked: ApprovalAsked, covers: tuple[Rule, ...]) -> Answer:
        nonlocal by
        answer = await live.waits.approval(asked, covers)
        by = answer.by
        return answer

    def keep(rules: tuple[Rule, ...]) -> None:  # right after an answer, and one at a time
        try:
            kept_approvals(loaded.paths, own and by).keep(rules)
        except HutchError as error:  # it holds for the session all the same
            logger.warning("approval.not_kept", session_id=session.id, error=str(error))

    approvals.ask, approvals.keep = None if session.delivery.unattended else ask, keep


@dataclass(slots=True)
class _Telling:
    """The pieces of a model's replies, without secrets, for those who follow."""

    run_id: str
    redactor: Redactor
    tell: Callable[[Delta], None]
    turn: int = 1
    _streams: dict[tuple[str, str], CleanStream] = field(default_factory=dict)

    def event(self, event: Event) -> None:
        if isinstance(event, ModelReplied):
            self.turn = event.turn + 1
            self._streams.clear()

    def piece(self, piece: llm.Delta) -> None:
        match piece:
            case llm.Text(text):
                self._add("text", text)
            case llm.Thinking(text):
                self._add("thinking", text)
            case llm.CallStarted(id, tool):
                self.tell(Delta(self.run_id, self.turn, "call", "", id, tool))
            case llm.CallArguments(id, text):
                self._add("arguments", text, id)
            case llm.Again(reason=reason):
                self._streams.clear()
                self.tell(Delta(self.run_id, self.turn, "again", self.redactor.clean(reason)))
            case llm.Finish():
                for (kind, id), stream in self._streams.items():
                    self._send(kind, stream.end(), id)

    def _add(self, kind: str, text: str, id: str = "") -> None:
        stream = self._streams.get((kind, id))
        if stream is None:
            stream = self._streams[kind, id] = CleanStream(self.redactor)
        self._send(kind, stream.add(text), id)

    def _send(self, kind: str, text: str, id: str) -> None:
        if not text:
            return
        match kind:
            case "text" | "thinking" | "arguments":
                self.tell(Delta(self.run_id, self.turn, kind, text, id))
