"""Runs, found by their names in the logs of their sessions."""

from hutch.domain.errors import NotFound
from hutch.domain.events import Entry, RunEnded, RunStarted
from hutch.domain.ids import SessionId
from hutch.domain.session import QueuedRun
from hutch.sessions.rewind import still_told
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


async def outcome_of(log: EventLog, run: QueuedRun) -> str:
    """How an agent's work on a run ended, by the log; empty when it has not, or was undone."""
    entries = still_told(await read_log(log, SessionId(run.session_id)))
    ends = (each.event for each in entries if isinstance(each.event, RunEnded))
    return next((each.outcome for each in ends if each.run_id == run.id), "")
