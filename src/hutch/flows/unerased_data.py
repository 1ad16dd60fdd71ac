"""Lists what an erasure does not reach: places outside of the log that may still contain a session's data."""

import asyncio
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hutch.agent.saved_approvals import SavedApprovals
from hutch.domain.errors import EventsMissing
from hutch.domain.ids import SessionId
from hutch.domain.run_events import ApprovalAnswered, RunStarted
from hutch.store.event_log_interface import EventLog
from hutch.store.event_text_copy_erasure import WORKING_COLUMNS
from hutch.store.leftover_session_row_finder import References, find_references
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass
from hutch.system.server_announcement_and_discovery import ServerFiles, find_server
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.workspaces import session_workspace_id

OPEN = ("starting", "idle", "running", "waiting")


@dataclass(slots=True)
class Traces:
    """The traces of a session outside of the log, as its log names them."""

    workspaces: set[str] = field(default_factory=set)  # their ids
    approvers: set[str] = field(default_factory=set)  # the ids of users who have allowed something always


@dataclass(frozen=True, slots=True)
class OtherPlaces:
    """Where an installation stores data outside of the log."""

    home: Home
    server_files: ServerFiles
    server_log: Path

    @property
    def backups(self) -> Path:
        return self.home.data / "backups"


async def traces_of(log: EventLog, session_id: SessionId) -> Traces:
    """Collect the traces of a session, before its log is erased."""
    found, after = Traces({session_workspace_id(session_id)}), 0
    with suppress(EventsMissing):  # a damaged log names only some of them
        while page := await log.read(session_id, after=after):
            after = page[-1].seq
            for entry in page:
                match entry.event:
                    case RunStarted(workspace=id) if id:
                        found.workspaces.add(id)
                    case ApprovalAnswered(allowed=True, scope="always", by=by):
                        found.approvers.add(by)
    return found


async def unerased(rows: Rows, places: OtherPlaces, session_id: SessionId, traces: Traces) -> list[str]:
    """One line for each place, with the command that clears it."""
    found = await find_references(rows, session_id)
    lines = await asyncio.to_thread(_in_tables, found, places, session_id)
    owner = await Users(rows).first_owner()
    approvers = {id or (owner.id if owner else "") for id in traces.approvers}  # no id: this machine's user
    names = await Users(rows).names(approvers)
    lines += await _approvals_lines(rows, names)
    home = places.home
    for id in sorted(traces.workspaces):
        if home.workspace(id).exists():
            is_own = id == session_workspace_id(session_id)
            way = f"hutch sessions rm {session_id}" if is_own else f"hutch workspace rm {id}"
            lines.append(f"Files and snapshots in {home.workspace(id)}. Remove them: {way}")
    if any(place.is_dir() and any(place.iterdir()) for place in (home.bases, home.repositories)):
        lines.append(
            f"Copies of repositories, with their addresses, in {home.bases} and {home.repositories}. "
            "Sessions share them; unused copies are removed after workspace.bases_days."
        )
    if places.server_log.exists():
        lines.append(f"Errors in the server's log, {places.server_log}.")
    backups = sorted(places.backups.glob("*"))
    return [*lines, *(f"The backup {each}. Delete it when it is not needed." for each in backups)]


def _in_tables(found: References, places: OtherPlaces, session_id: SessionId) -> list[str]:
    lines = []
    if find_server(places.server_files) and found.state in OPEN:
        if found.is_running:
            lines.append(
                f"The run in progress, which continues with what it has read. Stop it, and erase what it "
                f"wrote since: hutch sessions cancel {session_id}"
            )
        lines.append(
            f"The server's memory, with output of the session's terminals and background commands. End it: "
            f"hutch sessions end {session_id}"
        )
    lines += _settings_line(found, session_id)
    for branch in found.branches:
        lines.append(
            f"The branch {branch.name} of {branch.web_url or branch.repository}. Its name and the "
            "repository's address also stay in the list of changes, which leads to it."
        )
    if found.has_answered_requests:
        lines.append(
            "Hashes of the Idempotency-Keys of the last day, without requests and responses. They prevent "
            "repeated requests."
        )
    for id in found.forks:
        lines.append(
            f"The session {id}, which was forked from it, with its files, purpose, role, company, "
            f"expectations, settings and copied conversation. Erase it too: hutch erase --all {id}"
        )
    for id in found.reviewers:
        lines.append(f"The session {id}, which reviewed its change. Erase it too: hutch erase --all {id}")
    return lines


async def _approvals_lines(rows: Rows, names: dict[str, str]) -> list[str]:
    """Approvals apply to every repository, so they outlive the session in which they were given."""
    lines = []
    for id, name in sorted(names.items()):
        if await SavedApprovals(rows, id).rules():
            user = f" --user {name}" if name else ""
            lines.append(
                f"Permanent approvals of {name or 'you'}, some from this session: they may quote a command. "
                f"List and withdraw them: hutch approvals list{user}; hutch approvals rm{user}"
            )
    return lines


def _settings_line(found: References, session_id: SessionId) -> list[str]:
    """An open session needs its settings; after its end an erasure removes them too."""
    if found.state in (None, "ended"):
        return []
    return [
        f"The settings of the session, which is open: {', '.join(WORKING_COLUMNS)}. End it, and erase again: "
        f"hutch sessions end {session_id}"
    ]
