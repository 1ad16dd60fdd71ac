"""The content of a file before and after a recorded change, and its diff.

The log says which snapshots hold them. Old snapshots are removed after a while; then the log still has
the hashes.
"""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hutch.domain.errors import BadRequest, LimitReached, NotFound
from hutch.domain.events import FileChanged, FilesChanged, SessionPrepared
from hutch.domain.session import Session
from hutch.domain.session_events import UndoEvent
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.in_place_sessions_without_agent import workspace_number
from hutch.flows.log_visible_to_reader import read_page
from hutch.flows.sessions import allowed, may_write
from hutch.sessions.file_and_command_requests import Diff, ReadSnapshotFile
from hutch.workspace.difference_pages_and_patch import Difference, find_differences
from hutch.workspace.files.partial_read import Bytes
from hutch.workspace.snapshot_file_reading import read_recorded

Version = Literal["before", "after"]
MAX_CONTENT_BYTES = 64 << 20
FIRST_EVENTS = 20  # with `session.prepared`


async def read_content(
    services: Services, who: Caller, session_id: str, seq: int, version: Version = "after"
) -> bytes:
    """The file of a `file.changed`, before or after. Secrets are masked for callers who may only read."""
    session = await allowed(services, who, session_id)
    event = await _event(services, who, session.id, seq)
    if not isinstance(event, FileChanged):
        raise BadRequest(f"Event {seq} counts files and has no content of its own. Read its diff instead.")
    is_before = version == "before"
    path = event.moved_from or event.path if is_before else event.path
    existed = event.kind != "created" if is_before else event.kind != "deleted"
    number = event.previous_snapshot if is_before else event.snapshot
    if not existed:
        raise NotFound(f"'{path}' did not exist {version} event {seq}: it was {event.kind}.")
    _check_stored(number, seq)
    expected = event.before if is_before else event.after
    asked = ReadSnapshotFile(number, path, length=MAX_CONTENT_BYTES, sha256=expected)
    try:
        found = await _read(services, session, asked, by=who.user.id)
    except NotFound as error:
        raise NotFound(f"The content of event {seq} is no longer stored. {error}") from None
    if found.size > MAX_CONTENT_BYTES:
        raise LimitReached(
            f"'{path}' has {found.size:,} bytes; at most {MAX_CONTENT_BYTES:,} are returned. Restore "
            f"snapshot {number} in a fork to read it.",
            limit="content",
        )
    if expected and await asyncio.to_thread(_hash, found.data) != expected:
        raise NotFound(
            f"The content {version} event {seq} is not stored: another process changed '{path}' before "
            f"snapshot {number} was taken."
        )
    if await may_write(services, who, session):
        return found.data
    return await asyncio.to_thread(services.redactor.mask, found.data)


async def read_diff(services: Services, who: Caller, session_id: str, seq: int) -> Difference:
    """The diff of a `file.changed`, of all files of a `files.changed`, or of an undo.

    A `files.changed` is about files that git would commit, or about those that it ignores; an undo about
    both.
    """
    session = await allowed(services, who, session_id)
    event = await _event(services, who, session.id, seq)
    is_undo = isinstance(event, UndoEvent)
    old, new = (
        (event.before, event.after)
        if isinstance(event, UndoEvent)
        else (event.previous_snapshot, event.snapshot)
    )
    _check_stored(old, seq)
    _check_stored(new, seq)
    path = old_path = ""
    if isinstance(event, FileChanged):
        path, old_path = await _check_hashes(services, who, session, seq, event)
    read_only = not await may_write(services, who, session)
    ignored = isinstance(event, FilesChanged) and event.ignored
    asked = Diff(old, new, path, read_only=read_only, ignored=ignored, old_path=old_path)
    try:
        found = await _compare(services, session, asked, by=who.user.id)
        if is_undo or (isinstance(event, FileChanged) and not found.total):  # git may ignore the file
            more = await _compare(services, session, replace(asked, ignored=True), by=who.user.id)
            found = _joined(found, more)
        return found
    except NotFound as error:
        raise NotFound(f"The diff of event {seq} is no longer stored. {error}") from None


async def _check_hashes(
    services: Services, who: Caller, session: Session, seq: int, event: FileChanged
) -> tuple[str, str]:
    """Refuse a diff of other versions than those of the event.

    Returns the path that the snapshots have, and the one before a move.
    """
    real_paths = {path: path for path in (event.path, event.moved_from or "")}
    versions = (
        ("before", event.before, event.previous_snapshot, event.moved_from or event.path),
        ("after", event.after, event.snapshot, event.path),
    )
    for version, expected, number, path in versions:
        if expected is None:
            continue
        asked = ReadSnapshotFile(number, path, length=MAX_CONTENT_BYTES, sha256=expected)
        try:
            found = await _read(services, session, asked, by=who.user.id)
        except NotFound as error:
            raise NotFound(f"The diff of event {seq} is no longer stored. {error}") from None
        if found.size <= MAX_CONTENT_BYTES and await asyncio.to_thread(_hash, found.data) != expected:
            raise NotFound(
                f"The diff of event {seq} is not stored: another process changed '{path}' {version} it, and "
                f"snapshot {number} does not have that version."
            )
        real_paths[path] = found.path
    return real_paths[event.path], real_paths[event.moved_from or ""]


async def _read(services: Services, session: Session, asked: ReadSnapshotFile, *, by: str) -> Bytes:
    if not session.delivery.in_place:
        return await services.host.call(session.id, asked, by=by)
    number = await _place_number(services, session)
    async with services.open_recorded(Path(session.repository), number=number) as workspace:
        return await read_recorded(
            workspace, asked.snapshot, asked.path, asked.start, asked.length, asked.sha256
        )


async def _compare(services: Services, session: Session, asked: Diff, *, by: str) -> Difference:
    if not session.delivery.in_place:
        return await services.host.call(session.id, asked, by=by)
    number = await _place_number(services, session)
    async with services.open_recorded(Path(session.repository), number=number) as workspace:
        return await find_differences(
            workspace,
            asked.old,
            asked.new,
            path=asked.path,
            old_path=asked.old_path,
            binary=not asked.read_only,
            ignored=asked.ignored,
        )


async def _place_number(services: Services, session: Session) -> int:
    """Which of the processes that had the directory open at the same time has the session's snapshots."""
    first = await services.log.read(session.id, limit=FIRST_EVENTS)
    prepared = (entry.event.workspace for entry in first if isinstance(entry.event, SessionPrepared))
    return workspace_number(next(prepared, ""))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _joined(one: Difference, other: Difference) -> Difference:
    return replace(
        one,
        files=[*one.files, *other.files],
        total=one.total + other.total,
        patch=one.patch + other.patch,
        cut=one.cut or other.cut,
    )


async def _event(
    services: Services, who: Caller, session_id: str, seq: int
) -> FileChanged | FilesChanged | UndoEvent:
    page = await read_page(services, who, session_id, after=seq - 1, limit=1)
    if not page.entries or page.entries[0].seq != seq:
        raise NotFound(f"The session {session_id} has no event {seq}.")
    event = page.entries[0].event
    if not isinstance(event, FileChanged | FilesChanged | UndoEvent):
        raise BadRequest(f"Event {seq} is a {event.type}. Only changes of files have a content.")
    return event


def _check_stored(number: int, seq: int) -> None:
    if not number:
        raise NotFound(f"The content of event {seq} is not stored: no snapshot has it.")
