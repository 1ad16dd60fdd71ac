"""Lists and moves files of a session, and makes directories; see `file_content` for their content."""

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.domain.relative_path import parse_path
from hutch.edit.file_operation_types import FileChange
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.base_route import ask, router
from hutch.gateway.rest.request_file_paths import PathText
from hutch.sessions.file_and_command_requests import ListFiles, MakeDirectory, MoveFile
from hutch.workspace.files.directory_listing import Entry

routes = router("files")

MAX_ENTRIES = 1000


@fields_from(Entry, "path kind size mode target")
class FileOut(Out):
    """An entry of the workspace."""

    mode: int = Field(description="Permission bits.")
    modified_ms: int
    target: str | None = Field(description="The target of a symbolic link.")
    utf8: bool = Field(
        description="False: the name is not UTF-8, contains U+FFFD instead, and cannot be requested."
    )


@fields_from(FileChange)
class FileChangeOut(Out):
    """The result for one file."""

    before: str | None = Field(description="The SHA-256 of the content before.")
    after: str | None = Field(description="The SHA-256 of the content now.")


class MoveIn(In):
    """A new name for a file, a link or a directory."""

    path: PathText
    to: PathText
    replace: bool = Field(False, description="Overwrite a file that has that name.")


class DirectoryIn(In):
    """A directory to create, with those above it."""

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
    path: Annotated[str, Query(max_length=4096, description="A directory; empty means the workspace.")] = "",
    recursive: Annotated[bool, Query(description="Include subdirectories.")] = False,
    ignored: Annotated[bool, Query(description="Include files that .gitignore excludes.")] = False,
    cursor: Annotated[str, Query(max_length=16384, description="`next` of the previous page.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES, description="The maximum number of entries.")] = 200,
) -> Response:
    """The entries of a directory, sorted by name."""
    query = ListFiles(parse_path(path, or_root=True), recursive, not ignored, cursor or None, limit)
    found = await ask(request, caller, session_id, query)
    return page(request, [file_json(each) for each in found.entries], found.cursor)


@routes.post("/sessions/{session_id}/move", operation_id="move_file", response_model=list[FileChangeOut])
async def move(request: Request, caller: Writer, keyed: ByKey, session_id: str, body: MoveIn) -> Response:
    """Rename or move a file, a link or a directory."""
    move = MoveFile(parse_path(body.path), parse_path(body.to), body.replace)
    return answer(await ask(request, caller, session_id, move))


@routes.post(
    "/sessions/{session_id}/directories", operation_id="make_directory", response_model=list[FileChangeOut]
)
async def make_directory(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: DirectoryIn
) -> Response:
    """Create a directory and those above it. The response lists the new ones."""
    return answer(await ask(request, caller, session_id, MakeDirectory(parse_path(body.path))))
