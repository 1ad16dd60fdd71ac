"""The authors of the work: characters by author in the final text of each file.

The versions of a file come from the snapshots before and after each of its changes.
"""

from collections.abc import Sequence

from hutch.domain.current_actor_and_author import author_of
from hutch.domain.errors import HutchError
from hutch.domain.events import Entry, FileChanged
from hutch.domain.ids import SessionId
from hutch.flows.interviews.text_authorship import AuthoredPart, TextVersion, authored_parts, chars_by_author
from hutch.sessions.file_and_command_requests import ReadSnapshotFile
from hutch.sessions.interface import SessionHost
from hutch.system.lazy_dataclass import dataclass

STARTER = "starter"  # the author of the files that the question came with
UNKNOWN = "unknown"
MAX_VERSIONS = 400  # of one file; earlier ones count as the starter's
MAX_BYTES = 200_000  # larger files are not compared


@dataclass(frozen=True, slots=True)
class FileAuthors:
    """Characters without white space of a file, by author."""

    path: str
    chars: dict[str, int]
    counted: bool = True  # false for one that is too large, or no text


async def find_authors(
    host: SessionHost, session_id: SessionId, entries: Sequence[Entry]
) -> list[FileAuthors]:
    """The authors of each file that was changed and is still there."""
    found = await find_authored_files(host, session_id, entries)
    return [
        FileAuthors(path, chars_by_author(parts or ()), counted=parts is not None)
        for path, parts in found.items()
    ]


async def find_authored_files(
    host: SessionHost, session_id: SessionId, entries: Sequence[Entry]
) -> dict[str, list[AuthoredPart] | None]:
    """The parts by author of each file that was changed and is still there; None for one whose text cannot be
    read."""
    changes: dict[str, list[FileChanged]] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, FileChanged):
            if event.moved_from:
                changes[event.path] = changes.pop(event.moved_from, [])
            changes.setdefault(event.path, []).append(event)
    found: dict[str, list[AuthoredPart] | None] = {}
    for path, events in sorted(changes.items()):
        if events[-1].kind != "deleted":
            versions = await _versions(host, session_id, events)
            found[path] = authored_parts(versions) if versions else None
    return found


async def _versions(
    host: SessionHost, session_id: SessionId, events: Sequence[FileChanged]
) -> list[TextVersion]:
    """The versions that can be read; none without the last."""
    events = events[-MAX_VERSIONS:]
    first = events[0]
    found: list[TextVersion] = []
    if first.before is not None:
        source = first.moved_from or first.path
        text = await _text(host, session_id, first.previous_snapshot, source, first.before)
        found += [] if text is None else [TextVersion(STARTER, text)]
    for event in events:
        if event.after is None:
            continue
        text = await _text(host, session_id, event.snapshot, event.path, event.after)
        if text is not None:
            found.append(TextVersion(author_of(event) or UNKNOWN, text))
        elif event is events[-1]:
            return []
    return found


async def _text(
    host: SessionHost, session_id: SessionId, snapshot: int, path: str, sha256: str
) -> str | None:
    try:
        wanted = ReadSnapshotFile(snapshot, path, length=MAX_BYTES, sha256=sha256)
        read = await host.call(session_id, wanted)
        return read.data.decode() if read.size <= MAX_BYTES else None
    except (HutchError, UnicodeDecodeError):
        return None
