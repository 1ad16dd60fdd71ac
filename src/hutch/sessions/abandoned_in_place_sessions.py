"""Ends sessions in a directory whose process was killed: no other process can continue them."""

from contextlib import suppress

from hutch.domain.errors import Conflict
from hutch.domain.events import SessionEnded
from hutch.store.event_log_interface import EventLog
from hutch.store.run_queue import Runs
from hutch.store.sessions import Sessions
from hutch.store.table_access_interface import Rows

KILLED = "Its process was killed. Input and output of the last moments may be missing."


async def end_abandoned(log: EventLog, rows: Rows) -> None:
    """End every such session in its log and its row."""
    for session_id in await Runs(rows).abandoned_in_place():
        with suppress(Conflict):  # another process has just ended it
            if not (await log.head(session_id)).ended:
                await log.append(session_id, [SessionEnded(outcome="abandoned", reason=KILLED)])
        await Runs(rows).end_all(session_id, "abandoned", KILLED)
        await Sessions(rows).set(session_id, state="ended", workspace_id="", reason=KILLED)
