"""Edits, patches and searches in the files of a session."""

from typing import Annotated, Any, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.errors import BadRequest
from hutch.domain.relative_path import parse_path
from hutch.edit.edit_result import EditedFile, EditResult
from hutch.flows.sessions import allowed, may_write
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import MAX_SIZE, In, Out, answer, fields_from, next_link
from hutch.gateway.rest.base_route import ask, router, server_of
from hutch.gateway.rest.files import FileChangeOut
from hutch.gateway.rest.request_file_paths import PathText
from hutch.sessions.file_and_command_requests import (
    ApplyPatch,
    EditFile,
    FindFiles,
    ReadWithTool,
    SearchFiles,
)
from hutch.workspace.ripgrep_search import MAX_CONTEXT_LINES, GrepQuery
from hutch.workspace.search_match_redaction import Line

routes = router("files")

MAX_EDITS = 1000
MAX_FOUND = 10_000
Pattern = Annotated[str, Query(min_length=1, max_length=10_000)]
Below = Annotated[str, Query(max_length=4096, description="Only below this path.")]
MaxResults = Annotated[int, Query(ge=1, le=MAX_FOUND, description="The maximum number of results.")]
Offset = Annotated[int, Query(ge=0, le=MAX_SIZE, description="`next` of the previous result.")]
NEXT = "The offset of the next results. Null: no more, or more than a search reads; then narrow it."


class ReplaceIn(In):
    """Replace `old` by `new`. `old` must be unique, unless all occurrences are replaced."""

    old: str
    new: str
    replace_all: bool = False


class LinesIn(In):
    """Replace lines by `new`."""

    start_line: int = Field(ge=1, le=2**53)
    end_line: int = Field(ge=1, le=2**53)
    new: str


class InsertIn(In):
    """Insert `new` after a line; 0 is the beginning."""

    insert_line: int = Field(ge=0, le=2**53)
    new: str


class EditIn(In):
    """Edits of one file; all of them are applied, or none."""

    path: PathText
    edits: list[ReplaceIn | LinesIn | InsertIn] = Field(min_length=1, max_length=MAX_EDITS)
    if_hash: str | None = Field(
        None, max_length=64, description="Only if the file still has this SHA-256: for edits by line number."
    )

    def request(self) -> EditFile:
        return EditFile(parse_path(self.path), [each.model_dump() for each in self.edits], self.if_hash)


class PatchIn(In):
    """A unified diff, or a patch in the format of models (`*** Begin Patch`)."""

    patch: str = Field(min_length=1)


@fields_from(EditedFile, "path kind diff notes warnings moved_from")
class EditedFileOut(Out):
    """The result for one file."""

    notes: list[str] = Field(description="How the text was matched, and edits that were already in place.")
    warnings: list[str] = Field(description="For example, a syntax error that is new.")


class EditedOut(Out):
    """The result of edits or a patch."""

    files: list[EditedFileOut]
    changes: list[FileChangeOut]


@fields_from(Line)
class LineOut(Out):
    """A matching line, or one of its context."""


class FoundOut(Out):
    """The result of a search."""

    lines: list[LineOut] = Field(description="With output=content.")
    counts: dict[str, int] = Field(description="With output=count: matches by file.")
    paths: list[str] = Field(description="With output=files.")
    total: int
    cut: bool = Field(description="There are more results.")
    next: int | None = Field(description=NEXT)
    left_out: list[str] = Field(description="Rules of policies: files that these exclude are not shown.")


class PathsOut(Out):
    """Matching files, the newest first."""

    paths: list[str]
    total: int
    cut: bool = Field(description="There are more results.")
    next: int | None = Field(description=NEXT)


def edited_json(edited: EditResult) -> dict[str, object]:
    return {"files": [EditedFileOut.of(file) for file in edited.files], "changes": edited.changes}


@routes.post("/sessions/{session_id}/edit", operation_id="edit_file", response_model=EditedOut)
async def edit(request: Request, caller: Writer, keyed: ByKey, session_id: str, body: EditIn) -> Response:
    """Apply all edits to a file, or none. Small differences in white space are tolerated and reported."""
    return answer(edited_json(await ask(request, caller, session_id, body.request())))


@routes.post("/sessions/{session_id}/patch", operation_id="apply_patch", response_model=EditedOut)
async def patch(request: Request, caller: Writer, keyed: ByKey, session_id: str, body: PatchIn) -> Response:
    """Apply a patch completely, or not at all."""
    return answer(edited_json(await ask(request, caller, session_id, ApplyPatch(body.patch))))


@routes.get("/sessions/{session_id}/grep", operation_id="search_files", response_model=FoundOut)
async def grep(
    request: Request,
    caller: Reader,
    session_id: str,
    pattern: Pattern,
    path: Below = "",
    glob: Annotated[
        str | None, Query(max_length=1000, description="Only files that match, such as `*.py`.")
    ] = None,
    ignore_case: bool = False,
    multiline: bool = False,
    context: Annotated[int, Query(ge=0, le=MAX_CONTEXT_LINES, description="Lines around each match.")] = 0,
    limit: MaxResults = 200,
    offset: Offset = 0,
    output: Literal["content", "files", "count"] = "content",
    include_ignored: Annotated[bool, Query(description="Also what `.gitignore` files list.")] = False,
) -> Response:
    """Search the files with a regular expression.

    For callers who may only read the session, lines with a secret that the server knows do not match.
    """
    services = server_of(request).services
    session = await allowed(services, caller, session_id)
    query = GrepQuery(
        pattern=_plain(pattern),
        path=parse_path(path, or_root=True),
        glob=_plain(glob) if glob else None,
        ignore_case=ignore_case,
        multiline=multiline,
        context=context,
        limit=limit,
        offset=offset,
        output=output,
        include_ignored=include_ignored,
    )
    read_only = not await may_write(services, caller, session)
    found = await services.host.call(session.id, SearchFiles(query, read_only), by=caller.user.id)
    headers = next_link(request, "offset", found.next)
    return answer(FoundOut.of(found), headers=headers)


class FoundCodeOut(Out):
    """The files that match a query best."""

    matches: list[dict[str, Any]] = Field(
        description="Each with path, first_line, last_line, symbol, kind, why and lines."
    )
    missing: int = Field(description="Files that are not indexed yet: search again.")


@routes.get("/sessions/{session_id}/code-search", operation_id="search_code", response_model=FoundCodeOut)
async def search(
    request: Request,
    caller: Reader,
    session_id: str,
    query: Annotated[
        str, Query(min_length=1, max_length=4000, description="Words of a question, or a symbol.")
    ],
    path: Below = "",
    limit: Annotated[int, Query(ge=1, le=50, description="The maximum number of files.")] = 10,
) -> Response:
    """Find code by words or a symbol: the best files, with lines, definition and reason."""
    services = server_of(request).services
    session = await allowed(services, caller, session_id)
    read_only = not await may_write(services, caller, session)
    arguments = {"query": _plain(query), "path": parse_path(path, or_root=True), "limit": limit}
    use = ReadWithTool("search_code", arguments, read_only)
    answered = await services.host.call(session.id, use, by=caller.user.id)
    if not answered.ok:
        raise BadRequest(answered.text)
    return answer(FoundCodeOut(**answered.data))


@routes.get("/sessions/{session_id}/glob", operation_id="find_files", response_model=PathsOut)
async def glob(
    request: Request,
    caller: Reader,
    session_id: str,
    pattern: Pattern,
    path: Below = "",
    directories: Annotated[bool, Query(description="Find directories that hold files instead.")] = False,
    limit: MaxResults = 200,
    offset: Offset = 0,
) -> Response:
    """Files, or directories, whose path matches a pattern such as `**/*.py`."""
    services = server_of(request).services
    session = await allowed(services, caller, session_id)
    read_only = not await may_write(services, caller, session)
    below = parse_path(path, or_root=True)
    query = FindFiles(_plain(pattern), below, limit, offset, read_only, directories)
    found = await services.host.call(session.id, query, by=caller.user.id)
    return answer(found, headers=next_link(request, "offset", found.next))


def _plain(pattern: str) -> str:
    if "\0" in pattern:
        raise BadRequest("A pattern cannot contain NUL.")
    return pattern
