"""Abandons a waiting run: one that has yet to start, to resume, or to be delivered again.

A run that has done its work keeps the outcome of that work. Then only its delivery is abandoned,
together with the approval of that delivery.
"""

from collections.abc import Sequence

from hutch.domain.events import DeliveryEnded, DeliveryRequested, Entry, RunEnded, RunResumed
from hutch.domain.session import QueuedRun
from hutch.sessions.live_session import LiveSession

CANCELLED, UNDONE, OVER = "It was cancelled.", "It was undone.", "The session was ended."
DELIVERED = frozenset({"done", "tests_failing"})  # outcomes of runs whose work is delivered


async def abandon(live: LiveSession, run: QueuedRun, reason: str) -> None:
    """End a waiting run as cancelled. After a crash halfway, this is done again."""
    await report_abandoned(live, [run], reason)
    await live.runs.end(run.id, "cancelled", reason)


async def report_abandoned(live: LiveSession, runs: Sequence[QueuedRun], reason: str) -> None:
    """Record that runs are abandoned. Runs that did their work are ended; the caller ends the others."""
    entries = await live.entries()
    ends = {each.event.run_id: each.event for each in reversed(entries) if isinstance(each.event, RunEnded)}
    unended = [run for run in runs if run.id not in ends]
    if unended:
        await live.append([RunEnded(run_id=run.id, outcome="cancelled", reason=reason) for run in unended])
    for ended in (ends[run.id] for run in runs if run.id in ends):
        await report_undelivered(live, entries, ended.run_id, reason)
        await live.runs.end(ended.run_id, ended.outcome, ended.reason)


async def report_undelivered(live: LiveSession, entries: Sequence[Entry], run_id: str, reason: str) -> None:
    """Record that the work of a run is not delivered, if its delivery is pending."""
    delivers = (await live.sessions.get(live.id)).deliver
    if _is_awaited(entries, run_id, delivers=delivers):
        await live.append([undelivered(entries, run_id, reason)])


def undelivered(entries: Sequence[Entry], run_id: str, reason: str) -> DeliveryEnded:
    """Build the event for an abandoned delivery. It repeats whether the tests of the run fail."""
    last = DeliveryEnded(run_id=run_id, outcome="failed")
    for entry in entries:
        match entry.event:
            case DeliveryEnded(cancelled=False) as ended if ended.run_id == run_id:
                last = ended
    why = f"{reason.rstrip('.')} before it was delivered."
    return DeliveryEnded(
        run_id=run_id,
        outcome="failed",
        reason=f"{why} {last.reason}" if last.failing else why,
        failing=last.failing,
        cancelled=True,
    )


def first_end(entries: Sequence[Entry], run_id: str) -> RunEnded | None:
    """How a run ended. Its first end counts, since no work follows it, unless the run was resumed."""
    found: RunEnded | None = None
    for entry in entries:
        match entry.event:
            case RunEnded() as ended if ended.run_id == run_id and found is None:
                found = ended
            case RunResumed() as resumed if resumed.run_id == run_id:
                found = None
    return found


def _is_awaited(entries: Sequence[Entry], run_id: str, *, delivers: bool) -> bool:
    """True if the delivery of a run is pending."""
    awaited = False
    for entry in entries:
        match entry.event:
            case RunEnded() as ended if ended.run_id == run_id:
                awaited = delivers and ended.outcome in DELIVERED
            case RunResumed() as resumed if resumed.run_id == run_id:
                awaited = False
            case DeliveryRequested() as requested if requested.run_id == run_id:
                awaited = True
            case DeliveryEnded() as ended if ended.run_id == run_id:
                awaited = False
    return awaited
