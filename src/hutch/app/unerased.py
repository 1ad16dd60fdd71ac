"""What an erasure does not reach: places outside of the log that may still hold what a session said."""

from collections.abc import Iterable
from contextlib import suppress

from sqlalchemy import Connection, select

from hutch.app.running import find_server
from hutch.app.workspaces import home_of, session_name
from hutch.domain.errors import EventsMissing
from hutch.domain.ids import SessionId
from hutch.domain.run_events import RunStarted
from hutch.settings import Loaded
from hutch.store.rows import Rows
from hutch.store.schema import changes, runs, sessions
from hutch.store.seam import EventLog

OPEN = ("starting", "idle", "running", "waiting")


async def workspaces_of(log: EventLog, session_id: SessionId) -> set[str]:
    """The ids of a session's workspaces, as its log names them: to be asked before that is erased."""
    found, after = {session_name(session_id)}, 0
    with suppress(EventsMissing):  # of a damaged log, those that are left of it name
        while page := await log.read(session_id, after=after):
            after = page[-1].seq
            found |= {entry.event.workspace for entry in page if isinstance(entry.event, RunStarted)}
    return found - {""}


async def unerased(rows: Rows, loaded: Loaded, session_id: SessionId, workspaces: Iterable[str]) -> list[str]:
    """One line for each place, with the way to clear it."""
    lines = await rows.fetch(lambda connection: _in_tables(connection, loaded, session_id))
    home = home_of(loaded)
    for id in sorted(workspaces):
        if home.workspace(id).exists():
            is_own = id == session_name(session_id)
            way = f"hutch sessions rm {session_id}" if is_own else f"hutch workspace rm {id}"
            lines.append(f"Files and snapshots in {home.workspace(id)}. Remove them: {way}")
    if loaded.paths.server_log.exists():
        lines.append(f"Errors in the server's log, {loaded.paths.server_log}.")
    backups = sorted((loaded.paths.data / "backups").glob("*"))
    return [*lines, *(f"The backup {each}. Delete it when it is not needed." for each in backups)]


def _in_tables(connection: Connection, loaded: Loaded, session_id: SessionId) -> list[str]:
    lines = []
    running = select(runs.c.id).where(runs.c.session_id == session_id, runs.c.state == "running")
    state = select(sessions.c.state).where(sessions.c.id == session_id)
    if find_server(loaded.paths) and connection.scalar(state) in OPEN:
        if connection.scalar(running):
            lines.append(
                f"The run that is under way, which goes on with what it has read. Stop it, and erase what it "
                f"wrote since: hutch sessions cancel {session_id}"
            )
        lines.append(
            f"The server's memory, of what terminals and background commands of the session printed. End it: "
            f"hutch sessions end {session_id}"
        )
    wanted = select(changes.c.branch, changes.c.repository, changes.c.web_url)
    for change in connection.execute(wanted.where(changes.c.session_id == session_id)):
        lines.append(f"The branch {change.branch} of {change.web_url or change.repository}.")
    forks = select(sessions.c.id).where(sessions.c.forked_from.startswith(session_id, autoescape=True))
    return [*lines, *(f"The session {id}, which began with its files." for id in connection.scalars(forks))]
