"""What an erasure does not reach: places outside of the log that may still hold what a session said."""

from contextlib import suppress
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from hutch.app.approvals import kept_approvals
from hutch.app.running import find_server
from hutch.app.workspaces import home_of, session_name
from hutch.domain.errors import EventsMissing
from hutch.domain.ids import SessionId
from hutch.domain.run_events import ApprovalGiven, RunStarted
from hutch.settings import Loaded
from hutch.store.copies import WORKING_COLUMNS
from hutch.store.rows import Rows
from hutch.store.schema import answered_requests, changes, reviews, runs, sessions, users
from hutch.store.seam import EventLog

OPEN = ("starting", "idle", "running", "waiting")


@dataclass(slots=True)
class Traces:
    """What a session has left elsewhere, as its log names it."""

    workspaces: set[str] = field(default_factory=set)  # their ids
    approvers: set[str] = field(default_factory=set)  # the ids of users who have allowed something always


async def traces_of(log: EventLog, session_id: SessionId) -> Traces:
    """To be called before the log is erased."""
    found, after = Traces({session_name(session_id)}), 0
    with suppress(EventsMissing):  # of a damaged log, those that are left of it name
        while page := await log.read(session_id, after=after):
            after = page[-1].seq
            for entry in page:
                match entry.event:
                    case RunStarted(workspace=id) if id:
                        found.workspaces.add(id)
                    case ApprovalGiven(allowed=True, scope="always", by=by):
                        found.approvers.add(by)
    return found


async def unerased(rows: Rows, loaded: Loaded, session_id: SessionId, traces: Traces) -> list[str]:
    """One line for each place, with the way to clear it."""
    lines = await rows.fetch(lambda connection: _in_tables(connection, loaded, session_id))
    lines += await rows.fetch(lambda connection: _approvals_lines(connection, loaded, traces.approvers))
    home = home_of(loaded)
    for id in sorted(traces.workspaces):
        if home.workspace(id).exists():
            is_own = id == session_name(session_id)
            way = f"hutch sessions rm {session_id}" if is_own else f"hutch workspace rm {id}"
            lines.append(f"Files and snapshots in {home.workspace(id)}. Remove them: {way}")
    if any(place.is_dir() and any(place.iterdir()) for place in (home.bases, home.repositories)):
        lines.append(
            f"Copies of repositories, with their addresses, in {home.bases} and {home.repositories}. "
            "Sessions share them; one that is not used is removed after workspace.bases_days."
        )
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
    lines += _settings_line(connection, session_id)
    wanted = select(changes.c.branch, changes.c.repository, changes.c.web_url)
    for change in connection.execute(wanted.where(changes.c.session_id == session_id)):
        lines.append(
            f"The branch {change.branch} of {change.web_url or change.repository}. Its name and the "
            "repository's address also stay in the list of changes, which leads to it."
        )
    if connection.scalar(select(answered_requests.c.key).limit(1)):
        lines.append(
            "Hashes of the Idempotency-Keys of the last day, without requests and answers: so no request is "
            "done twice."
        )
    for id in _forks(connection, session_id):
        lines.append(
            f"The session {id}, which was forked from it, with its files, purpose, role, expectations and "
            f"settings. Erase it too: hutch erase --all {id}"
        )
    own = select(changes.c.id).where(changes.c.session_id == session_id)
    readers = select(reviews.c.session_id).where(reviews.c.change_id.in_(own), reviews.c.session_id != "")
    for id in sorted(set(connection.scalars(readers)) - {session_id}):
        lines.append(f"The session {id}, which reviewed its change. Erase it too: hutch erase --all {id}")
    return lines


def _approvals_lines(connection: Connection, loaded: Loaded, approvers: set[str]) -> list[str]:
    """Permissions hold in every repository, so they do not end with the session that they were given in."""
    lines = []
    for id in sorted(approvers):
        if kept_approvals(loaded.paths, id).rules():
            name = connection.scalar(select(users.c.name).where(users.c.id == id)) if id else ""
            user = f" --user {name}" if name else ""
            lines.append(
                f"What {name or 'you'} allowed always, also in this session: it may quote a command. "
                f"Look, and withdraw it: hutch approvals list{user}; hutch approvals rm{user}"
            )
    return lines


def _forks(connection: Connection, session_id: str) -> list[str]:
    """The sessions that were forked from one, and from those."""
    found = [session_id]
    for id in found:  # it grows meanwhile
        forked = sessions.c.forked_from.startswith(f"{id}@", autoescape=True)
        found += connection.scalars(select(sessions.c.id).where(forked).order_by(sessions.c.id))
    return found[1:]


def _settings_line(connection: Connection, session_id: SessionId) -> list[str]:
    """An open session needs what it works on; after its end an erasure takes that, too."""
    state = connection.scalar(select(sessions.c.state).where(sessions.c.id == session_id))
    if state in (None, "ended"):
        return []
    return [
        f"The settings of the session, which is open: {', '.join(WORKING_COLUMNS)}. End it, and erase again: "
        f"hutch sessions end {session_id}"
    ]
