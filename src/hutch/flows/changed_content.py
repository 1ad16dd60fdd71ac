"""The content of a file before and after a recorded change, and its diff.

The log says which snapshots hold them. Old snapshots are removed after a while; then the log still has
the hashes.
"""

import asyncio
from typing import Literal

from hutch.domain.errors import BadRequest, LimitReached, NotFound
from hutch.domain.events import FileChanged, FilesChanged
from hutch.domain.user import Caller
from hutch.flows.log_access import read_page
from hutch.flows.services import Services
from hutch.flows.sessions import allowed, may_write
from hutch.sessions.requests import Diff, ReadSnapshotFile
from hutch.workspace.diff_pages import Difference

Version = Literal["before", "after"]
MAX_CONTENT_BYTES = 64 << 20


async def read_content(
    services: Services, who: Caller, session_id: str, seq: int, version: Version = "after"
) -> bytes:
    """The file of a `file.changed`, before or after. Secrets are masked for callers who may only read."""
    session = await allowed(services, who, session_id)
    event = await _event(services, who, session.id, seq)
    if isinstance(event, FilesChanged):
        raise BadRequest(f"Event {seq} counts files and names none. Read its diff instead.")
    is_before = version == "before"
    path = event.moved_from or event.path if is_before else event.path
    existed = event.kind != "created" if is_before else event.kind != "deleted"
    number = event.previous_snapshot if is_before else event.snapshot
    if not existed:
        raise NotFound(f"'{path}' did not exist {version} event {seq}: it was {event.kind}.")
    _check_stored(number, seq)
    asked = ReadSnapshotFile(number, path, length=MAX_CONTENT_BYTES)
    try:
        found = await services.host.call(session.id, asked, by=who.user.id)
    except NotFound as error:
        raise NotFound(f"The content of event {seq} is no longer stored. {error}") from None
    if found.size > MAX_CONTENT_BYTES:
        raise LimitReached(
            f"'{path}' has {found.size:,} bytes; at most {MAX_CONTENT_BYTES:,} are returned. Restore "
            f"snapshot {number} in a fork to read it.",
            limit="content",
        )
    if await may_write(services, who, session):
        return found.data
    return await asyncio.to_thread(services.redactor.mask, found.data)


async def read_diff(services: Services, who: Caller, session_id: str, seq: int) -> Difference:
    """The diff of a `file.changed`, or of all files of a `files.changed` that git would commit."""
    session = await allowed(services, who, session_id)
    event = await _event(services, who, session.id, seq)
    _check_stored(event.previous_snapshot, seq)
    _check_stored(event.snapshot, seq)
    path = event.path if isinstance(event, FileChanged) else ""
    read_only = not await may_write(services, who, session)
    asked = Diff(event.previous_snapshot, event.snapshot, path, read_only=read_only)
    try:
        return await services.host.call(session.id, asked, by=who.user.id)
    except NotFound as error:
        raise NotFound(f"The diff of event {seq} is no longer stored. {error}") from None


async def _event(services: Services, who: Caller, session_id: str, seq: int) -> FileChanged | FilesChanged:
    page = await read_page(services, who, session_id, after=seq - 1, limit=1)
    if not page.entries or page.entries[0].seq != seq:
        raise NotFound(f"The session {session_id} has no event {seq}.")
    event = page.entries[0].event
    if not isinstance(event, FileChanged | FilesChanged):
        raise BadRequest(f"Event {seq} is a {event.type}. Only changes of files have a content.")
    return event


def _check_stored(number: int, seq: int) -> None:
    if not number:
        raise NotFound(f"The content of event {seq} is not stored: no snapshot has it.")
