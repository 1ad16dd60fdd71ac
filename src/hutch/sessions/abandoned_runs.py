"""A run that waits is given up: it has yet to begin, to go on, or to be delivered once more.

One that has done its work keeps the outcome of that. What is given up then is its delivery alone, and
with it the word that somebody gave for it.
"""

from collections.abc import Sequence

from hutch.domain.events import DeliveryAsked, DeliveryEnded, Entry, RunEnded, RunResumed
from hutch.domain.session import QueuedRun
from hutch.sessions.live_session import LiveSession

CANCELLED, UNDONE, OVER = "It was cancelled.", "It was undone.", "The session was ended."
DELIVERED = frozenset({"done", "tests_failing"})  # outcomes of runs after which something is delivered


async def give_up(live: LiveSession, run: QueuedRun, reason: str) -> None:
    """Note that nothing more comes of a run. Who is killed on the way does it again."""
    await report_abandoned(live, [run], reason)
    await live.runs.end(run.id, "cancelled", reason)


async def report_abandoned(live: LiveSession, runs: Sequence[QueuedRun], reason: str) -> None:
    """Say so of many; those that have done their work are over then, the others are to be ended."""
    entries = await live.entries()
    ends = {each.event.run_id: each.event for each in reversed(entries) if isinstance(each.event, RunEnded)}
    unended = [run for run in runs if run.id not in ends]
    if unended:
        await live.append([RunEnded(run_id=run.id, outcome="cancelled", reason=reason) for run in unended])
    for ended in (ends[run.id] for run in runs if run.id in ends):
        await report_undelivered(live, entries, ended.run_id, reason)
        await live.runs.end(ended.run_id, ended.outcome, ended.reason)


async def report_undelivered(live: LiveSession, entries: Sequence[Entry], run_id: str, reason: str) -> None:
    """Say that what a run did is not delivered, where somebody waits for that."""
    delivers = (await live.sessions.get(live.id)).deliver
    if _is_awaited(entries, run_id, delivers=delivers):
        await live.append([undelivered(entries, run_id, reason)])


def undelivered(entries: Sequence[Entry], run_id: str, reason: str) -> DeliveryEnded:
    """That what a run did is not delivered. That its tests fail is to be known also after that."""
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
    """How a run ended. The first end counts, nothing is worked on after it; unless somebody resumed it."""
    found: RunEnded | None = None
    for entry in entries:
        match entry.event:
            case RunEnded() as ended if ended.run_id == run_id and found is None:
                found = ended
            case RunResumed() as resumed if resumed.run_id == run_id:
                found = None
    return found


def _is_awaited(entries: Sequence[Entry], run_id: str, *, delivers: bool) -> bool:
    """Whether it is still open what comes of the delivery of a run."""
    awaited = False
    for entry in entries:
        match entry.event:
            case RunEnded() as ended if ended.run_id == run_id:
                awaited = delivers and ended.outcome in DELIVERED
            case RunResumed() as resumed if resumed.run_id == run_id:
                awaited = False
            case DeliveryAsked() as asked if asked.run_id == run_id:
                awaited = True
            case DeliveryEnded() as ended if ended.run_id == run_id:
                awaited = False
    return awaited
