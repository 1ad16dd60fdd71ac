"""The files of a session: listed, moved, and given directories; see `content` for what is in them."""

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.surrogates import printable
from hutch.flows.sessions import allowed
from hutch.gateway.answers import In, Out, Page, answer, page
from hutch.gateway.auth.who import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.rest.paths import PathText, parse_path
from hutch.gateway.rest.route import router, server_of
from hutch.sessions.requests import ListFiles, MakeDirectory, MoveFile
from hutch.workspace.files.listing import Entry

routes = router("files")

MOST_ENTRIES = 1000


class FileOut(Out):
    """One name in the workspace."""

    path: str
    kind: Literal["file", "directory", "link", "other"]
    size: int
    mode: int = Field(description="Permission bits.")
    modified_ms: int
    target: str | None = Field(description="Where a link points.")
    utf8: bool = Field(
        description="False: the name is no UTF-8, is told with U+FFFD, and cannot be asked for."
    )


class FileChangeOut(Out):
    """What became of one file."""

    path: str
    kind: Literal["created", "modified", "deleted", "moved"]
    before: str | None = Field(description="The SHA-256 of what was there.")
    after: str | None = Field(description="The SHA-256 of what is there now.")
    moved_from: str | None


class MoveIn(In):
    """A new name for a file, a link or a directory."""

    path: PathText
    to: PathText
    replace: bool = Field(False, description="Also over what has that name already.")


class DirectoryIn(In):
    """A directory to be made, with those above it."""

    path: PathText


def told(entry: Entry) -> dict[str, Any]:
    name = printable(entry.path)
    return {
        "path": name,
        "kind": entry.kind,
        "size": entry.size,
        "mode": entry.mode,
        "modified_ms": entry.modified_ns // 1_000_000,
        "target": entry.target,
        "utf8": name == entry.path,
    }


@routes.get("/sessions/{session_id}/files", operation_id="list_files", response_model=Page[FileOut])
async def listed(
    request: Request,
    who: Reader,
    session_id: str,
    path: Annotated[str, Query(max_length=4096, description="A directory; empty is the workspace.")] = "",
    recursive: Annotated[bool, Query(description="Also what is below.")] = False,
    ignored: Annotated[bool, Query(description="Also what .gitignore files leave out.")] = False,
    cursor: Annotated[str, Query(max_length=16384, description="`next` of the page before.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_ENTRIES, description="How many at most.")] = 200,
) -> Response:
    """What is in a directory, in the order of names."""
    site = server_of(request).site
    session = await allowed(site, who, session_id)
    wanted = ListFiles(parse_path(path, or_root=True), recursive, not ignored, cursor or None, limit)
    found = await site.host.call(session.id, wanted, by=who.user.id)
    return page(request, [told(each) for each in found.entries], found.cursor)


@routes.post("/sessions/{session_id}/move", operation_id="move_file", response_model=list[FileChangeOut])
async def move(request: Request, who: Writer, once: ByKey, session_id: str, wanted: MoveIn) -> Response:
    """Give a file, a link or a directory another name."""
    site = server_of(request).site
    session = await allowed(site, who, session_id, "input")
    asked = MoveFile(parse_path(wanted.path), parse_path(wanted.to), wanted.replace)
    return answer(await site.host.call(session.id, asked, by=who.user.id))


@routes.post(
    "/sessions/{session_id}/directories", operation_id="make_directory", response_model=list[FileChangeOut]
)
async def make_directory(
    request: Request, who: Writer, once: ByKey, session_id: str, wanted: DirectoryIn
) -> Response:
    """Make a directory and those above it; the answer names those that were not there."""
    site = server_of(request).site
    session = await allowed(site, who, session_id, "input")
    return answer(await site.host.call(session.id, MakeDirectory(parse_path(wanted.path)), by=who.user.id))
