"""Runs a recorded session again from any of its events, with another model, persona or prompt, and compares.

The rerun is a fork: it has the files and the conversation of that moment, and delivers nothing.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.events import (
    ConversationCopied,
    Entry,
    FileChanged,
    ModelReplied,
    RanTests,
    RunEnded,
    RunStarted,
    SnapshotTaken,
)
from hutch.domain.session import Rerun, Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.forked_conversation_copy import copy_conversation
from hutch.flows.new_session_validation import is_script
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.session_fork import copied_options
from hutch.flows.session_permissions import check_may_open
from hutch.flows.sessions import allowed, create_with_run
from hutch.sessions.file_and_command_requests import Diff, ListSnapshots
from hutch.sessions.state_before_last_run import effective_entries
from hutch.store.session_creation import OpenedSession
from hutch.store.table_access_interface import ExtraWrite
from hutch.system.lazy_dataclass import dataclass

CONTINUE = "Continue with the task."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNumbers:
    """One of two runs that are compared: what came after the point where they part."""

    session: str
    model: str = ""
    persona: str = ""
    outcome: str = ""
    reason: str = ""
    tests: str = ""
    turns: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    duration_s: float = 0.0
    files: int = 0
    added: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class _Point:
    """The moment of a log from which a rerun starts."""

    snapshot: int
    conversation: Sequence[Entry]
    prompt: str


class ForkAtEvent(NamedTuple):
    """A session that continues from an event of another one, and the prompt to continue with."""

    session: Session
    prompt: str


async def rerun(
    services: Services,
    who: Caller,
    session_id: str,
    asked: Rerun,
    *,
    also: ExtraWrite[OpenedSession] | None = None,
) -> Session:
    """Open a fork that does again, with these options, what came after an event."""
    return (await fork_at(services, who, session_id, asked, also=also)).session


async def fork_at(
    services: Services,
    who: Caller,
    session_id: str,
    asked: Rerun,
    *,
    prompts: bool = True,
    also: ExtraWrite[OpenedSession] | None = None,
    **options: Any,
) -> ForkAtEvent:
    """Open a fork at an event, with further options of a session; without `prompts`, nothing runs yet."""
    session = await allowed(services, who, session_id)
    check_may_open(who)
    if not session.workspace_id:
        raise NotFound(f"The session {session_id} has no files, so nothing can be run again.")
    if asked.model and is_script(asked.model) and not who.is_owner:
        raise Denied("A script is a file of this machine. Only an owner may use one as the model.")
    point = _find_point(effective_entries(await read_log(services.log, session.id)), asked.event)
    kept = await services.host.call(session.id, ListSnapshots())
    if all(each.id != point.snapshot for each in kept):
        raise NotFound(f"The files as of event {asked.event} are not stored any more.")
    prompt = asked.prompt or point.prompt
    new = await copied_options(services, who, session)
    new = replace(
        new,
        model=asked.model or new.model,
        persona=asked.persona or new.persona,
        deliver=False,
        prompt=prompt if prompts else "",
        delivery=replace(new.delivery, record="", unattended=False),
    )
    new = replace(new, **options)
    persona, generation = new.persona, new.generation
    await asyncio.to_thread(services.check_model, new.model, persona, who.user.id, generation)
    copied = await asyncio.to_thread(copy_conversation, point.conversation, None)
    origin = f"{session.id}@{point.snapshot}"
    made = await create_with_run(services, who, new, forked_from=origin, conversation=copied, also=also)
    return ForkAtEvent(made.session, prompt)


def _find_point(entries: Sequence[Entry], event: int) -> _Point:
    if not any(each.seq == event for each in entries):
        last = entries[-1].seq if entries else 0
        raise BadRequest(
            f"There is no event {event} that counts. `hutch log SESSION` lists them, up to {last}."
        )
    before = [each for each in entries if each.seq <= event]
    first_run = next((each for each in entries if isinstance(each.event, RunStarted)), None)
    if first_run is None:
        raise BadRequest("No run has started in this session, so there is nothing to run again.")
    snapshot = _snapshot_at(before) or _snapshot_at([each for each in entries if each.seq < first_run.seq])
    run = next((each for each in reversed(before) if isinstance(each.event, RunStarted)), first_run)
    assert isinstance(run.event, RunStarted)
    if not any(each.seq > run.seq and isinstance(each.event, ModelReplied) for each in before):
        return _Point(snapshot, [each for each in before if each.seq < run.seq], run.event.prompt)
    return _Point(snapshot, before, CONTINUE)


def _snapshot_at(entries: Sequence[Entry]) -> int:
    """The newest snapshot; 0 if there is none."""
    for entry in reversed(entries):
        if isinstance(entry.event, SnapshotTaken | FileChanged) and entry.event.snapshot:
            return entry.event.snapshot
    return 0


async def compare_runs(
    services: Services, who: Caller, session_id: str, rerun_id: str
) -> dict[str, RunNumbers]:
    """The results of a session after the moment of a rerun, and those of the rerun."""
    original = await allowed(services, who, session_id)
    again = await allowed(services, who, rerun_id)
    source, _, number = again.forked_from.partition("@")
    if source != original.id:
        raise BadRequest(f"The session {rerun_id} is not a rerun or a fork of {session_id}.")
    entries, later = await read_log(services.log, original.id), await read_log(services.log, again.id)
    copied = [each.event for each in later if isinstance(each.event, ConversationCopied)]
    known = max((each.upto_seq for each in copied if each.session == original.id), default=0)
    return {
        "original": await _numbers(services, original, entries, int(number), known),
        "rerun": await _numbers(services, again, later, 0, 0),
    }


async def _numbers(
    services: Services, session: Session, entries: Sequence[Entry], snapshot: int, known: int
) -> RunNumbers:
    """The first run that ended after a snapshot and the `known` part of the log, counted from there on."""
    start = max(known, next((each.seq for each in entries if _is_at(each, snapshot)), 0))
    numbers = RunNumbers(session=session.id, model=session.model, persona=session.persona)
    first = last = snapshot
    for entry in entries:
        event = entry.event
        if isinstance(event, RunStarted):
            numbers = replace(numbers, model=event.model, persona=event.persona)
        if entry.seq <= start:
            continue
        match event:
            case SnapshotTaken(snapshot=number):
                first, last = first or number, number
            case ModelReplied():
                cost = None if None in (event.cost_usd, numbers.cost_usd) else event.cost_usd
                numbers = replace(
                    numbers,
                    turns=numbers.turns + 1,
                    tokens=numbers.tokens + event.input_tokens + event.output_tokens,
                    cost_usd=None if cost is None else (numbers.cost_usd or 0.0) + cost,
                    duration_s=round(numbers.duration_s + event.duration_s, 3),
                )
            case RanTests():
                numbers = replace(numbers, tests=f"{event.passed} passed, {event.failed} failed")
            case RunEnded():
                numbers = replace(numbers, outcome=event.outcome, reason=event.reason)
                break
    if first == last:
        return numbers
    files = (await services.host.call(session.id, Diff(first, last))).files
    return replace(
        numbers,
        files=len(files),
        added=sum(each.added or 0 for each in files),
        deleted=sum(each.deleted or 0 for each in files),
    )


def _is_at(entry: Entry, snapshot: int) -> bool:
    return isinstance(entry.event, SnapshotTaken | FileChanged) and entry.event.snapshot == snapshot
