"""Yields the log entries of a run's session until the run ends.

If the event of the end was erased, yields the run's row of the database instead.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hutch.domain.errors import NotFound
from hutch.domain.events import ErasedEvent, WithheldEvent
from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader, VisibleEntry
from hutch.domain.session import QueuedRun
from hutch.flows.flow_services import Services
from hutch.sessions.interface import Delta, Update
from hutch.store.run_queue import Runs

END = "session.ended"
POLL_INTERVAL_S = 0.5  # the row of a run is written a moment after the last event


async def follow_run(
    services: Services, session_id: SessionId, reader: Reader, run_id: str
) -> AsyncGenerator[VisibleEntry | QueuedRun]:
    """The entries of the session, from the first on, as this reader may see them.

    The event that says how the run ended may have been erased, or be withheld. So, after such a gap in
    the log, the row of the run is polled too. When it says that the run has ended, and no entries are left,
    the row is yielded last. The row is also yielded last when the session ends first.
    """
    seq, has_gaps = 0, False
    async with aclosing(services.host.follow(session_id, reader)) as updates:
        while True:
            update = await (
                _next_or_end(services, updates, run_id, seq) if has_gaps else anext(updates, None)
            )
            if isinstance(update, Delta):
                continue
            if isinstance(update, QueuedRun):
                yield update
                return
            if update is None or (has_gaps and update.event.type == END):
                break
            seq, has_gaps = update.seq, has_gaps or isinstance(update.event, ErasedEvent | WithheldEvent)
            yield update
    try:
        yield await Runs(services.rows).get(run_id)
    except NotFound:  # the session was removed
        return


async def _next_or_end(
    services: Services, updates: AsyncGenerator[Update], run_id: str, seq: int
) -> Update | QueuedRun | None:
    """The next update, or the run if it has ended and nothing comes after this entry."""
    coming = asyncio.ensure_future(anext(updates, None))
    try:
        while not (await asyncio.wait([coming], timeout=POLL_INTERVAL_S))[0]:
            run = await Runs(services.rows).get(run_id)
            if run.state == "ended" and (await services.log.head(run.session_id)).seq <= seq:
                return run
        return coming.result()
    finally:
        coming.cancel()
        await asyncio.wait([coming])
