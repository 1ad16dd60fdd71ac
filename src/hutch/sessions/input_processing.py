"""Processes the inputs of a session.

The effect comes first, then the input is marked as taken. After a crash between the two the effect is
repeated, so every effect here is idempotent. The log shows, by its number, each message that a run received.
"""

import asyncio
from contextlib import suppress

from pydantic import ValidationError

from hutch.agent.run_setup import UserMessage
from hutch.domain import inputs
from hutch.domain.errors import Conflict, TooManyRequests
from hutch.domain.events import (
    ApprovalExtended,
    ChangesUndone,
    DeliveryEnded,
    Event,
    InputProcessed,
    MessageSent,
    RunEnded,
    RunQueued,
    SessionEnded,
    SessionPaused,
    SessionRedone,
    SessionResumed,
    SessionRewound,
)
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.ids import new_run_id
from hutch.domain.inputs import parse_input
from hutch.domain.session import QueuedRun, SessionInput
from hutch.domain.trace_id import trace_id
from hutch.sessions.approval_extension_to_session import extend_approval
from hutch.sessions.input_withdrawal import WITHDRAWN, withdraw
from hutch.sessions.live_session import LiveSession
from hutch.sessions.undo_input_processing import process_undo
from hutch.sessions.waiting_run_cancellation import CANCELLED, OVER, abandon, report_abandoned
from hutch.system.clock_without_jumps import wall_ms

MAX_ATTEMPTS, ATTEMPT_INTERVAL_S = 50, 0.02  # to stop a run that is being claimed
DROPPED = "The run was cancelled before the agent got this message. Send it again if it still applies."
_IN_TURN = frozenset(
    {"prompt", "withdraw", "cancel", "pause", "resume", "undo", "redo", "end", "unknown"}
)  # kinds of inputs


async def process_inputs(live: LiveSession) -> None:
    """Process all waiting inputs of a session, in order."""
    async with live.input_lock:
        if not live.recovered:
            await _recover(live)
            live.recovered = True
        waiting = [
            submitted for submitted in await _unprocessed(live) if submitted.seq not in live.undelivered
        ]
        waiting.sort(key=lambda submitted: not _stops(submitted))  # requests to stop come first
        if waiting and (await live.sessions.get(live.id)).state == "ended":
            await live.inputs.mark_all_processed(live.id)
            return
        for submitted in waiting:
            if submitted.seq in live.dropped:
                continue
            await _process(live, submitted)
            if _is(submitted, "end"):
                break  # the other inputs can have no effect


async def _unprocessed(live: LiveSession) -> list[SessionInput]:
    found: list[SessionInput] = []
    while page := await live.inputs.page(live.id, after=found[-1].seq if found else 0, unprocessed=True):
        found += page
    return found


def _stops(submitted: SessionInput) -> bool:
    return _is(submitted, "cancel", "pause", "end")


def _is(submitted: SessionInput, *kinds: str) -> bool:
    return any(f'"type":"{kind}"' in submitted.body[:40] for kind in kinds)


async def _recover(live: LiveSession) -> None:
    """Mark inputs as taken whose effect is in the log already, from before a crash.

    Some effects do not name their input. Such inputs are processed one by one, and each is noted before
    the next has an effect. So at most one effect follows the last note: that of the first such input.
    Times are not compared, because the clock may have been set back since.
    """
    waiting = {submitted.seq: submitted for submitted in await _unprocessed(live)}
    if not waiting:
        return
    done: set[int] = set()
    unnoted: list[Event] = []
    for entry in await live.entries():
        event = entry.event
        if isinstance(event, InputProcessed | MessageSent | ApprovalExtended):
            done.add(event.input)
        if isinstance(event, InputProcessed) and event.kind in _IN_TURN:
            unnoted.clear()
        elif isinstance(event, Event):
            unnoted.append(event)
    for seq in done & set(waiting):
        await live.inputs.mark_processed(live.id, seq)
    for seq in sorted(set(waiting) - done):
        if any(_is_effect_of(waiting[seq], event) for event in unnoted):
            if _is(waiting[seq], "cancel"):
                await _drop_messages(live, waiting[seq])
            await live.taken(waiting[seq])
            return


def _is_effect_of(submitted: SessionInput, event: Event) -> bool:
    """True if this event, which names no input, can only be the effect of this input."""
    match event:
        case RunEnded(outcome="cancelled", reason=reason) if reason == WITHDRAWN:
            return '"type":"withdraw"' in submitted.body
        case RunEnded(outcome="cancelled") | DeliveryEnded(cancelled=True):
            return '"type":"cancel"' in submitted.body
        case SessionPaused(by=submitted.by):
            return '"type":"pause"' in submitted.body
        case SessionResumed(by=submitted.by):
            return '"type":"resume"' in submitted.body
        case SessionRewound(input=submitted.seq) | ChangesUndone(input=submitted.seq):
            return '"type":"undo"' in submitted.body
        case SessionRewound(by=submitted.by, input=0):  # of an earlier version of Hutch
            return '"type":"undo"' in submitted.body
        case SessionRedone(input=submitted.seq):
            return '"type":"redo"' in submitted.body
    return False


async def _process(live: LiveSession, submitted: SessionInput) -> None:
    if submitted.seq in live.done:  # only the note failed, for example on a full disk
        await live.taken(submitted)
        return
    try:
        parsed = parse_input.validate_json(submitted.body)
    except ValidationError:  # it comes from a newer version of Hutch; its row remains
        await live.taken(submitted, "unknown")
        return
    match parsed:
        case inputs.Prompt():
            options = parsed.generation.to_generation() if parsed.generation else NO_GENERATION
            await _queue(live, submitted, parsed.text, options)
        case inputs.Message() if live.run is not None and live.run.kind == "prompt":
            live.undelivered[submitted.seq] = submitted
            live.inbox.append(UserMessage(parsed.text, by=submitted.by, input=submitted.seq))
        case inputs.Message():
            await _queue(live, submitted, parsed.text)
        case inputs.Withdraw():
            await live.taken(submitted, refused=await withdraw(live, parsed.input))
        case inputs.Extend():
            await live.taken(submitted, refused=await extend_approval(live, submitted, parsed.call_id))
        case inputs.Approve() | inputs.Deny() | inputs.Answer():
            live.undelivered[submitted.seq] = submitted
            live.waits.offer(submitted, parsed)
            if live.run is None and not await live.runs.unfinished(live.id):
                await live.waits.forget()
        case inputs.Cancel():
            if await _cancel(live):
                await _drop_messages(live, submitted)
            await live.taken(submitted)
        case inputs.Pause(programs=programs):
            await _pause(live, submitted, programs=programs)
            await live.taken(submitted)
        case inputs.Resume():
            await _resume(live, submitted)
            await live.taken(submitted)
        case inputs.Undo() | inputs.Redo():
            await live.taken(submitted, refused=await process_undo(live, submitted, parsed))
        case inputs.End():
            await _end(live, submitted, parsed.reason)


async def _queue(
    live: LiveSession, submitted: SessionInput, prompt: str, generation: Generation = NO_GENERATION
) -> None:
    """Queue a run for a worker. The queue and the list of inputs change in one transaction."""
    session = await live.sessions.get(live.id)
    run = QueuedRun(
        id=new_run_id(),
        session_id=live.id,
        owner=session.owner,
        prompt=live.dependencies.redactor.redact(prompt),
        generation=generation,
        input=submitted.seq,
        worker=live.dependencies.reserved_for,
        queued_ms=wall_ms(),
        trace_id=trace_id(),
    )
    try:
        await live.inputs.queue_run(run, live.dependencies.rates)
    except TooManyRequests as error:  # messages that came during a run, and were not received by it
        await live.taken(submitted, refused=str(error))
        return
    if session.state in ("idle", "parked"):
        await live.set_state("queued")
    taken = InputProcessed(input=submitted.seq, kind="prompt", by=submitted.by)
    await live.append([taken, RunQueued(run_id=run.id, prompt=run.prompt, by=submitted.by)])


async def _cancel(live: LiveSession) -> bool:
    """Stop the current run, or else the next one. Returns whether a run was at work."""
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        if await live.stop():
            return True
        waiting = await live.runs.unfinished(live.id)
        if not waiting or waiting[0].kind != "prompt":
            return False
        next_run = waiting.pop(0)
        if not await live.runs.hold_queued(next_run.id) and attempts_left:
            await asyncio.sleep(ATTEMPT_INTERVAL_S)
            continue  # a worker has just claimed it, or its end could not be written
        await abandon(live, next_run, CANCELLED)
        if not waiting and (await live.sessions.get(live.id)).state == "queued":
            await live.publish_state()
        return False
    return False


async def _drop_messages(live: LiveSession, cancel: SessionInput) -> None:
    """Drop the messages to a cancelled run that it did not get: they must not start another run."""
    await live.settle()
    for submitted in await _unprocessed(live):
        is_earlier = submitted.seq < cancel.seq and submitted.seq not in live.done
        if is_earlier and _is(submitted, "message"):
            live.dropped.add(submitted.seq)
            await live.taken(submitted, refused=DROPPED)
    if (await live.sessions.get(live.id)).state == "queued" and not await live.runs.unfinished(live.id):
        await live.publish_state()  # it waited for the messages


async def _pause(live: LiveSession, submitted: SessionInput, *, programs: bool) -> None:
    if (await live.sessions.get(live.id)).state == "paused":
        return
    await live.append([SessionPaused(by=submitted.by)])
    await live.sessions.set(live.id, state="paused", reason="")
    await _stop(live, leaves_open=True)
    if programs:
        await live.stop_programs()
    await live.sessions.set(live.id, state="paused", reason="")


async def _stop(live: LiveSession, *, leaves_open: bool = False) -> None:
    """Stop the current run, also one that a worker has just claimed."""
    for _ in range(MAX_ATTEMPTS):
        if await live.stop(leaves_open=leaves_open):
            return
        if not any(run.state == "running" for run in await live.runs.unfinished(live.id)):
            return
        await asyncio.sleep(ATTEMPT_INTERVAL_S)


async def _resume(live: LiveSession, submitted: SessionInput) -> None:
    if (await live.sessions.get(live.id)).state != "paused":
        return
    await live.append([SessionResumed(by=submitted.by)])
    await live.resume_programs()
    waiting = await live.runs.unfinished(live.id)
    await live.sessions.set(live.id, state="queued" if waiting else live.state, reason="")
    await live.runs.requeue(live.id, worker=live.dependencies.reserved_for)


async def _end(live: LiveSession, submitted: SessionInput, reason: str) -> None:
    await live.runs.hold_all(live.id)  # else a worker claims the next while this one is stopped
    await _stop(live)
    waiting = [run for run in await live.runs.unfinished(live.id) if run.kind == "prompt"]
    await report_abandoned(live, waiting, OVER)
    await live.runs.end_all(live.id, "cancelled", OVER)
    await live.park(reason="the session ends")
    reason = live.dependencies.redactor.redact(reason)
    ended: list[Event] = [
        InputProcessed(input=submitted.seq, kind="end", by=submitted.by),
        SessionEnded(outcome="done", reason=reason),
    ]
    with suppress(Conflict):  # it had ended already, before a crash
        await live.append(ended)
    await live.sessions.set(live.id, state="ended", reason=reason)
    await live.inputs.mark_all_processed(live.id)
