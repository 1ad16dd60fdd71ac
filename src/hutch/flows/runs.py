"""Runs, found by their names in the logs of their sessions."""

from hutch.domain.errors import NotFound
from hutch.domain.events import Entry, RunStarted
from hutch.domain.ids import SessionId
from hutch.store.seam import EventLog


async def find_run(log: EventLog, name: str) -> tuple[SessionId, list[Entry]]:
    """The log of a run by the run's id, its session's, or `last`; it must not be done already."""
    before = None
    while heads := await log.heads(before=before):
        before = heads[-1].session_id
        for head in heads:
            if name not in ("last", head.session_id) and not name.startswith("run_"):
                continue
            entries = await read_log(log, head.session_id)
            runs = [each.event.run_id for each in entries if isinstance(each.event, RunStarted)]
            empty = {each.event.type for each in entries} <= {"session.opened", "snapshot.taken"}
            if empty and name in ("last", head.session_id):
                raise NotFound(
                    f"The session {head.session_id} was stopped before its run began, so there is nothing to "
                    f"go on with. Start it again with hutch run, or name another: `hutch log` lists them."
                )
            if not runs or (name.startswith("run_") and runs[-1] != name):
                continue
            return head.session_id, entries
    raise NotFound(f"There is no run '{name}'. `hutch log` lists the sessions.")


async def read_log(log: EventLog, session_id: SessionId) -> list[Entry]:
    """All of a log."""
    found: list[Entry] = []
    while page := await log.read(session_id, after=found[-1].seq if found else 0):
        found += page
    return found
