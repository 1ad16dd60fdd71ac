"""The files of a session: listed, moved, and given directories; see `content` for what is in them."""

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.surrogates import replace_surrogates
from hutch.edit.file_change import FileChange
from hutch.gateway.auth.caller import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.responses import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.paths import PathText, parse_path
from hutch.gateway.rest.route import ask, router
from hutch.sessions.requests import ListFiles, MakeDirectory, MoveFile
from hutch.workspace.files.listing import Entry

routes = router("files")

MAX_ENTRIES = 1000


@fields_from(Entry, "path kind size mode target")
class FileOut(Out):
    """One name in the workspace."""

    mode: int = Field(description="Permission bits.")
    modified_ms: int
    target: str | None = Field(description="Where a link points.")
    utf8: bool = Field(
        description="False: the name is not UTF-8, contains U+FFFD instead, and cannot be requested."
    )


@fields_from(FileChange)
class FileChangeOut(Out):
    """What became of one file."""

    before: str | None = Field(description="The SHA-256 of what was there.")
    after: str | None = Field(description="The SHA-256 of what is there now.")


class MoveIn(In):
    """A new name for a file, a link or a directory."""

    path: PathText
    to: PathText
    replace: bool = Field(False, description="Overwrite a file that has that name.")


class DirectoryIn(In):
    """A directory to be made, with those above it."""

    path: PathText


def file_json(entry: Entry) -> dict[str, Any]:
    name = replace_surrogates(entry.path)
    copied = {field: getattr(entry, field) for field in ("kind", "size", "mode", "target")}
    return {"path": name, **copied, "modified_ms": entry.modified_ns // 1_000_000, "utf8": name == entry.path}


@routes.get("/sessions/{session_id}/files", operation_id="list_files", response_model=Page[FileOut])
async def listed(
    request: Request,
    caller: Reader,
    session_id: str,
    path: Annotated[str, Query(max_length=4096, description="A directory; empty is the workspace.")] = "",
    recursive: Annotated[bool, Query(description="Include subdirectories.")] = False,
    ignored: Annotated[bool, Query(description="Include files that .gitignore excludes.")] = False,
    cursor: Annotated[str, Query(max_length=16384, description="`next` of the previous page.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="How many at most.")] = 200,
) -> Response:
    """What is in a directory, in the order of names."""
    query = ListFiles(parse_path(path, or_root=True), recursive, not ignored, cursor or None, limit)
    found = await ask(request, caller, session_id, query)
    return page(request, [file_json(each) for each in found.entries], found.cursor)


@routes.post("/sessions/{session_id}/move", operation_id="move_file", response_model=list[FileChangeOut])
async def move(request: Request, caller: Writer, keyed: ByKey, session_id: str, body: MoveIn) -> Response:
    """Give a file, a link or a directory another name."""
    move = MoveFile(parse_path(body.path), parse_path(body.to), body.replace)
    return answer(await ask(request, caller, session_id, move))


@routes.post(
    "/sessions/{session_id}/directories", operation_id="make_directory", response_model=list[FileChangeOut]
)
async def make_directory(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: DirectoryIn
) -> Response:
    """Make a directory and those above it; the answer names those that were not there."""
    return answer(await ask(request, caller, session_id, MakeDirectory(parse_path(body.path))))
