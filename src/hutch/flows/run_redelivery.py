"""Delivers the work of a run again: the forge was down, or a user accepts that its tests fail, or that a
text only looks like a credential.

Requests are idempotent. The log names the requesting user before the delivery starts. The next
free worker performs it, and finds the steps of a killed worker instead of repeating them.
"""

import asyncio
from collections.abc import Sequence

from hutch.domain.errors import Conflict, Denied
from hutch.domain.events import DeliveryEnded, DeliveryRequested, Entry, RunEnded, RunResumed
from hutch.domain.ids import SessionId
from hutch.domain.run_events import SUSPECTED_SECRET
from hutch.domain.session import QueuedRun, Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.sessions import allowed, run
from hutch.sessions.state_before_last_run import effective_entries
from hutch.sessions.waiting_run_cancellation import DELIVERED
from hutch.store.run_queue import Runs
from hutch.system.lazy_dataclass import dataclass

SETTLE_TRIES, SETTLE_S = 20, 0.05


@dataclass(slots=True)
class RunRecord:
    """The facts about a run in its log that matter for a delivery."""

    ended: RunEnded | None = None
    last: DeliveryEnded | None = None
    requested: bool = False  # a delivery was requested since
    failing: bool = False  # a user has accepted that its tests fail


async def deliver(services: Services, who: Caller, run_id: str, *, failing: bool = False) -> QueuedRun:
    """Deliver the work of a run, unless that is done; `failing` accepts the reason of the last failure."""
    found = await run(services, who, run_id)
    session = await allowed(services, who, found.session_id, "input")
    found, record = await _settled(services, who, found)
    if record.last is not None and record.last.outcome != "failed":
        return found
    if not session.deliver:
        check_may_set_delivery(who, session, deliver=True)
    if session.state == "ended":
        raise Conflict(f"The session {session.id} has ended. Fork it to continue from its last state.")
    _check_work(found, record, known=failing)
    if found.state != "ended":
        if failing and not record.failing and record.ended and record.ended.outcome == "tests_failing":
            raise Conflict(f"The run {run_id} is being delivered. Repeat the request when that has ended.")
        return found
    if record.last is not None and not failing and _needs_consent(record, record.last):
        raise Conflict(
            f"{record.last.reason} To propose the work anyway, confirm that this is known: "
            f'{{"failing": true}} in the request, or hutch changes propose {run_id}'
        )
    if not record.requested or (failing and not record.failing):
        requested = DeliveryRequested(run_id=run_id, by=who.user.id, failing=failing)
        await services.log.append(session.id, [requested])
    await Runs(services.rows).requeue_ended(run_id, worker=services.reserved_for)
    await services.host.input(session.id)  # wake the worker
    return await run(services, who, run_id)


def _needs_consent(record: RunRecord, last: DeliveryEnded) -> bool:
    return last.code == SUSPECTED_SECRET or (last.failing and not record.failing)


def check_may_set_delivery(who: Caller, session: Session, *, deliver: bool) -> None:
    """Only the owner of a session may turn its delivery on or off."""
    if deliver and session.delivery.review:
        raise Conflict(f"The session {session.id} reads a change. It has nothing to deliver.")
    if who.is_owner or session.owner == who.user.id:
        return
    if deliver:
        raise Denied(
            f"The session {session.id} was opened without delivery. Its owner can have its work delivered."
        )
    raise Denied(f"The session {session.id} delivers its work. Only its owner can change that.")


def _check_work(found: QueuedRun, record: RunRecord, *, known: bool) -> None:
    """Refuse if there is nothing to deliver."""
    if record.ended is None and found.state != "ended":
        raise Conflict(f"The run {found.id} is {found.state}. It is delivered when it is done.")
    if record.ended is None:
        raise Conflict(f"The work of the run {found.id} was undone, so there is nothing to deliver.")
    if record.ended.outcome not in DELIVERED and not known and not record.failing:
        raise Conflict(
            f"The run {found.id} ended as {record.ended.outcome} before it was done. Another prompt in its "
            f"session continues it. To propose its work so far: hutch changes propose {found.id}"
        )


async def _settled(services: Services, who: Caller, found: QueuedRun) -> tuple[QueuedRun, RunRecord]:
    """A run and its log at the same moment: a failure is logged shortly before the run has ended."""
    for _ in range(SETTLE_TRIES):
        record = read(await read_log(services.log, SessionId(found.session_id)), found.id)
        if found.state != "running" or record.last is None or record.requested:
            break
        await asyncio.sleep(SETTLE_S)
        found = await run(services, who, found.id)
    return found, record


def read(entries: Sequence[Entry], run_id: str) -> RunRecord:
    """Read the record of a run from its log, without undone entries."""
    record = RunRecord()
    for entry in effective_entries(entries):
        match entry.event:
            case RunEnded() as ended if ended.run_id == run_id and record.ended is None:
                record.ended = ended
            case RunResumed() as resumed if resumed.run_id == run_id:
                record.ended = None
            case DeliveryRequested() as requested if requested.run_id == run_id:
                record.requested, record.failing = True, record.failing or requested.failing
            case DeliveryEnded() as ended if ended.run_id == run_id:
                record.last, record.requested = ended, False
                record.failing = record.failing and not ended.cancelled
    return record
