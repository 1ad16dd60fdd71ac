"""What becomes of an input.

The effect comes first and is marked as done after: who is killed between the two
does it again, and every effect here can be done twice. What was heard by a run is
seen in the log by its number.
"""

import asyncio
from contextlib import suppress

from pydantic import ValidationError

from hutch.agent.run_setup import UserMessage
from hutch.domain import inputs
from hutch.domain.errors import Conflict
from hutch.domain.events import (
    DeliveryEnded,
    Event,
    InputTaken,
    MessageSent,
    RunEnded,
    RunQueued,
    SessionEnded,
    SessionPaused,
    SessionResumed,
    SessionRewound,
)
from hutch.domain.ids import new_run_id
from hutch.domain.inputs import parse_input
from hutch.domain.session import QueuedRun, SessionInput
from hutch.domain.surrogates import replace_surrogates
from hutch.domain.trace import trace_id
from hutch.sessions.abandoned_runs import CANCELLED, OVER, UNDONE, give_up, report_abandoned
from hutch.sessions.live_session import LiveSession
from hutch.sessions.rewind import before_last_run
from hutch.sessions.undo import MAX_LISTED, lost_by_undo, would_lose
from hutch.system.clock import wall_ms

MAX_TRIES, TRY_INTERVAL_S = 50, 0.02  # to stop a run that is being taken up
_IN_TURN = frozenset({"prompt", "cancel", "pause", "resume", "undo", "end", "unknown"})  # kinds of inputs


async def take_all(live: LiveSession) -> None:
    """Take every input of a session that waits, in order."""
    async with live.taking:
        if not live.recovered:
            await _recover(live)
            live.recovered = True
        waiting = [given for given in await _untaken(live) if given.seq not in live.handed]
        waiting.sort(key=lambda given: not _stops(given))  # who wants it to stop does not wait behind others
        if waiting and (await live.sessions.get(live.id)).state == "ended":
            await live.inputs.mark_all_taken(live.id)
            return
        for given in waiting:
            await _take(live, given)
            if _is(given, "end"):
                break  # nothing can come of the others


async def _untaken(live: LiveSession) -> list[SessionInput]:
    found: list[SessionInput] = []
    while page := await live.inputs.page(live.id, after=found[-1].seq if found else 0, untaken=True):
        found += page
    return found


def _stops(given: SessionInput) -> bool:
    return _is(given, "cancel", "pause", "end")


def _is(given: SessionInput, *kinds: str) -> bool:
    return any(f'"type":"{kind}"' in given.body[:40] for kind in kinds)


async def _recover(live: LiveSession) -> None:
    """Inputs whose effect is in the log already, from before a crash, are done with.

    Some effects do not name their input. Since such inputs are taken in turn, and each is noted before the
    next has an effect, at most one effect follows the last note: that of the first input that asks for it.
    Times are not compared: the clock may have been set back since.
    """
    waiting = {given.seq: given for given in await _untaken(live)}
    if not waiting:
        return
    done: set[int] = set()
    unnoted: list[Event] = []
    for entry in await live.entries():
        event = entry.event
        if isinstance(event, InputTaken | MessageSent):
            done.add(event.input)
        if isinstance(event, InputTaken) and event.kind in _IN_TURN:
            unnoted.clear()
        elif isinstance(event, Event):
            unnoted.append(event)
    for seq in done & set(waiting):
        await live.inputs.mark_taken(live.id, seq)
    for seq in sorted(set(waiting) - done):
        if any(_came_of(waiting[seq], event) for event in unnoted):
            await live.taken(waiting[seq])
            return


def _came_of(given: SessionInput, event: Event) -> bool:
    """Whether this is what somebody wanted who is not named in it: nothing else would have done it."""
    match event:
        case RunEnded(outcome="cancelled") | DeliveryEnded(cancelled=True):
            return '"type":"cancel"' in given.body
        case SessionPaused(by=given.by):
            return '"type":"pause"' in given.body
        case SessionResumed(by=given.by):
            return '"type":"resume"' in given.body
        case SessionRewound(by=given.by):
            return '"type":"undo"' in given.body
    return False


async def _take(live: LiveSession, given: SessionInput) -> None:
    if given.seq in live.done:  # only noting it had failed, on a full disk say
        await live.taken(given)
        return
    try:
        asked = parse_input.validate_json(given.body)
    except ValidationError:  # of a newer version; it stays in the list
        await live.taken(given, "unknown")
        return
    match asked:
        case inputs.Prompt():
            await _queue(live, given, asked.text)
        case inputs.Message() if live.run is not None and live.run.kind == "prompt":
            live.handed[given.seq] = given
            live.inbox.append(UserMessage(asked.text, by=given.by, input=given.seq))
        case inputs.Message():
            await _queue(live, given, asked.text)
        case inputs.Approve() | inputs.Deny() | inputs.Answer():
            live.handed[given.seq] = given
            live.waits.offer(given, asked)
            if live.run is None and not await live.runs.unfinished(live.id):
                await live.waits.forget()
        case inputs.Cancel():
            await _cancel(live)
            await live.taken(given)
        case inputs.Pause():
            await _pause(live, given)
            await live.taken(given)
        case inputs.Resume():
            await _resume(live, given)
            await live.taken(given)
        case inputs.Undo():
            await live.taken(given, refused=await _undo(live, given, discard=asked.discard))
        case inputs.End():
            await _end(live, given, asked.reason)


async def _queue(live: LiveSession, given: SessionInput, prompt: str) -> None:
    """A prompt waits for a worker. The queue and the list of inputs agree at every moment."""
    session = await live.sessions.get(live.id)
    run = QueuedRun(
        id=new_run_id(),
        session_id=live.id,
        owner=session.owner,
        prompt=live.grounds.redactor.redact(prompt),
        input=given.seq,
        worker=live.grounds.reserved_for,
        queued_ms=wall_ms(),
        trace_id=trace_id(),
    )
    await live.inputs.queue_run(run)
    if session.state in ("idle", "parked"):
        await live.set_state("queued")
    taken = InputTaken(input=given.seq, kind="prompt", by=given.by)
    await live.append([taken, RunQueued(run_id=run.id, prompt=run.prompt, by=given.by)])


async def _cancel(live: LiveSession) -> None:
    """Stop the run that works, or else the one that would be next."""
    for tries_left in reversed(range(MAX_TRIES)):
        if await live.stop():
            return
        waiting = await live.runs.unfinished(live.id)
        if not waiting or waiting[0].kind != "prompt":
            return
        next_run = waiting.pop(0)
        if not await live.runs.hold_queued(next_run.id) and tries_left:
            await asyncio.sleep(TRY_INTERVAL_S)
            continue  # the worker has taken it up this moment, or its end could not be written
        await give_up(live, next_run, CANCELLED)
        if not waiting and (await live.sessions.get(live.id)).state == "queued":
            await live.publish_state()
        return


async def _pause(live: LiveSession, given: SessionInput) -> None:
    if (await live.sessions.get(live.id)).state == "paused":
        return
    await live.append([SessionPaused(by=given.by)])
    await live.sessions.set(live.id, state="paused", reason="")
    await live.stop(leaves_open=True)
    await live.sessions.set(live.id, state="paused", reason="")


async def _resume(live: LiveSession, given: SessionInput) -> None:
    if (await live.sessions.get(live.id)).state != "paused":
        return
    await live.append([SessionResumed(by=given.by)])
    waiting = await live.runs.unfinished(live.id)
    await live.sessions.set(live.id, state="queued" if waiting else live.state, reason="")
    await live.runs.requeue(live.id, worker=live.grounds.reserved_for)


async def _undo(live: LiveSession, given: SessionInput, *, discard: bool) -> str:
    """Undo the last run; why not, when that would remove what others have changed."""
    entries = await live.entries()
    found = before_last_run(entries)
    if found is None or live.run is not None:
        return ""  # nothing to undo, or not now
    to_seq, snapshot, run_id = found
    await live.runs.hold_all(live.id)  # else a worker takes one up while the files are put back
    try:
        waiting = await live.runs.unfinished(live.id)
        if any(run.state == "running" for run in waiting):
            return ""  # one was taken up this moment
        async with live.used() as sandbox:
            lost = await lost_by_undo(entries, sandbox.workspace)
        if lost and not discard:
            return live.grounds.redactor.redact(str(would_lose(lost)))
        for run in waiting:
            if run.id == run_id:  # it was to go on with what is taken back, or that was to be delivered
                await give_up(live, run, UNDONE)
        async with live.used() as sandbox:
            before = (await sandbox.workspace.restore(snapshot)).before.id if snapshot else 0
            rewound = SessionRewound(
                to_seq=to_seq,
                snapshot=snapshot,
                by=given.by,
                before=before,
                discarded=tuple(
                    live.grounds.redactor.redact(replace_surrogates(path)) for path in lost[:MAX_LISTED]
                ),
                discarded_count=len(lost),
            )
            await live.append([rewound])
            return ""
    finally:
        await _let_go_on(live)


async def _let_go_on(live: LiveSession) -> None:
    """What was held for a moment waits as before."""
    if (await live.sessions.get(live.id)).state == "paused":
        return
    if live.run is None:
        await live.set_state("queued" if await live.runs.unfinished(live.id) else live.state)
    await live.runs.requeue(live.id, worker=live.grounds.reserved_for)


async def _end(live: LiveSession, given: SessionInput, reason: str) -> None:
    await live.runs.hold_all(live.id)  # else a worker takes up the next while this one is stopped
    await live.stop()
    waiting = [run for run in await live.runs.unfinished(live.id) if run.kind == "prompt"]
    await report_abandoned(live, waiting, OVER)
    await live.runs.end_all(live.id, "cancelled", OVER)
    await live.park(reason="the session ends")
    reason = live.grounds.redactor.redact(reason)
    ended: list[Event] = [
        InputTaken(input=given.seq, kind="end", by=given.by),
        SessionEnded(outcome="done", reason=reason),
    ]
    with suppress(Conflict):  # it had ended already, before a crash
        await live.append(ended)
    await live.sessions.set(live.id, state="ended", reason=reason)
    await live.inputs.mark_all_taken(live.id)
