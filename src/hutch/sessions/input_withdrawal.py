"""Takes back an input that nothing has followed yet.

A message is taken back until the agent reads it, a prompt until a worker starts its run. Done twice, for
example after a crash, it has the same result.
"""

from hutch.domain.events import InputProcessed, RunStarted
from hutch.sessions.live_session import LiveSession
from hutch.sessions.waiting_run_cancellation import abandon

MAX_RUNS = 100  # the newest ones, which may wait
WITHDRAWN = "It was withdrawn."
TOO_LATE = "Input {0} cannot be withdrawn: it has had its effect. Cancel or undo the run instead."


async def withdraw(live: LiveSession, number: int) -> str:
    """Take back the input with this number. Returns why it is refused; empty when it is done."""
    for message in live.inbox:
        if message.input == number:
            live.inbox.remove(message)
            live.dropped.add(number)
            await live.taken(live.undelivered[number], refused=WITHDRAWN)
            return ""
    events = [entry.event for entry in await live.entries()]
    if any(isinstance(each, InputProcessed) and _is_withdrawal_of(number, each) for each in events):
        return ""
    started = {each.run_id for each in events if isinstance(each, RunStarted)}
    for run in await live.runs.page(session_ids=[live.id], limit=MAX_RUNS):
        if run.input != number or run.kind != "prompt":
            continue
        if run.state == "ended" and run.reason == WITHDRAWN:
            return ""
        if run.id not in started and await live.runs.hold_queued(run.id):
            await abandon(live, run, WITHDRAWN)
            is_queued = (await live.sessions.get(live.id)).state == "queued"
            if is_queued and not await live.runs.unfinished(live.id):
                await live.publish_state()
            return ""
    return TOO_LATE.format(number)


def _is_withdrawal_of(number: int, event: InputProcessed) -> bool:
    return event.input == number and event.refused == WITHDRAWN
