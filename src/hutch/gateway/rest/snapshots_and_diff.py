"""Snapshots of a session's files, and the difference between two of them."""

from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.domain.relative_path import parse_path
from hutch.flows.sessions import allowed, may_write
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import (
    MAX_SIZE,
    In,
    Limit,
    NumberCursor,
    Out,
    Page,
    answer,
    fields_from,
    page,
)
from hutch.gateway.rest.base_route import ask, router, server_of
from hutch.gateway.rest.request_file_paths import PathText
from hutch.sessions.file_and_command_requests import Diff, ListSnapshots, RestoreSnapshot, TakeSnapshot
from hutch.snapshots.comparison import Change
from hutch.snapshots.git_storage import Snapshot
from hutch.workspace.difference_pages_and_patch import MAX_FILES, Difference

routes = router("snapshots")

DIFF = "text/x-diff"
Number = Annotated[int, Path(ge=1, le=MAX_SIZE)]
Of = Annotated[int | None, Query(ge=1, le=MAX_SIZE)]


@fields_from(Snapshot, "id tree reason files bytes omitted")
class SnapshotOut(Out):
    """The content of a workspace at one moment."""

    tree: str = Field(description="The git tree of the files that would be committed.")
    taken_ms: int
    omitted: int = Field(description="Entries that are not in the snapshot.")


class NewSnapshotIn(In):
    """A new snapshot."""

    reason: str = Field("asked for", max_length=1000)


class RestoreIn(In):
    """The files to restore."""

    path: PathText = Field("", description="Only this path; empty means all files.")


@fields_from(Change)
class ChangedOut(Out):
    """The difference in one file."""

    added: int | None = Field(description="The number of lines; null for a binary file.")


@fields_from(Difference, "old new files total patch cut")
class DifferenceOut(Out):
    """The difference between two snapshots."""

    old: int | None = Field(description="Null: there is no snapshot yet to compare with.")
    new: int | None = Field(description="Null: the current files.")
    files: list[ChangedOut] = Field(description="A page of the files; `next` is the cursor of the next one.")
    total: int = Field(description="How many files differ.")
    next: str | None = Field(description="The cursor of the next page; null on the last.")
    patch: str = Field(
        description="In git's format, on the first page only; bytes that are not UTF-8 become U+FFFD."
    )
    cut: bool = Field(description="The patch was too long and is incomplete.")


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    same = ("id", "tree", "reason", "files", "bytes", "omitted")
    taken_ms = int(snapshot.taken_at.timestamp() * 1000)
    return {**{name: getattr(snapshot, name) for name in same}, "taken_ms": taken_ms}


def difference_json(found: Difference) -> dict[str, Any]:
    same = {name: getattr(found, name) for name in ("old", "new", "files", "total", "cut")}
    return {**same, "next": found.cursor, "patch": found.patch.decode(errors="replace")}


@routes.get(
    "/sessions/{session_id}/snapshots", operation_id="list_snapshots", response_model=Page[SnapshotOut]
)
async def listed(
    request: Request, caller: Reader, session_id: str, cursor: NumberCursor = "", limit: Limit = 50
) -> Response:
    """The snapshots of a session, the newest first."""
    every = await ask(request, caller, session_id, ListSnapshots())
    before = int(cursor) if cursor else None
    found = sorted((each for each in every if before is None or each.id < before), key=lambda each: -each.id)
    more = str(found[limit - 1].id) if len(found) > limit else None
    return page(request, [snapshot_json(each) for each in found[:limit]], more)


@routes.post(
    "/sessions/{session_id}/snapshots",
    status_code=201,
    operation_id="take_snapshot",
    response_model=SnapshotOut,
)
async def take(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: NewSnapshotIn | None = None
) -> Response:
    """Take a snapshot of the current files."""
    reason = (body or NewSnapshotIn()).reason
    return answer(snapshot_json(await ask(request, caller, session_id, TakeSnapshot(reason))), 201)


@routes.post(
    "/sessions/{session_id}/snapshots/{number}/restore",
    operation_id="restore_snapshot",
    response_model=SnapshotOut,
)
async def restore(
    request: Request,
    caller: Writer,
    keyed: ByKey,
    session_id: str,
    number: Number,
    body: RestoreIn | None = None,
) -> Response:
    """Restore files from a snapshot. The response is a snapshot of the files before."""
    path = parse_path(body.path if body else "", or_root=True)
    return answer(snapshot_json(await ask(request, caller, session_id, RestoreSnapshot(number, path))))


@routes.get(
    "/sessions/{session_id}/diff",
    operation_id="get_diff",
    response_model=DifferenceOut,
    responses={200: {"content": {DIFF: {"schema": {"type": "string"}}}}},
)
async def diff(
    request: Request,
    caller: Reader,
    session_id: str,
    old: Of = None,
    new: Of = None,
    path: Annotated[str, Query(max_length=4096, description="Only below this path.")] = "",
    cursor: Annotated[str, Query(max_length=20, description="`next` of the previous page.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_FILES, description="The maximum number of files.")] = MAX_FILES,
) -> Response:
    """The difference between two snapshots; the default is from the session's first to now.

    `Accept: text/x-diff` returns only the patch. This takes no snapshot.
    """
    services = server_of(request).services
    session = await allowed(services, caller, session_id)
    read_only = not await may_write(services, caller, session)
    query = Diff(old, new, parse_path(path, or_root=True), cursor, limit, read_only)
    return diff_response(request, await services.host.call(session.id, query, by=caller.user.id))


def diff_response(request: Request, found: Difference) -> Response:
    """A difference as JSON, or only its patch if the client prefers that."""
    if DIFF in request.headers.get("accept", ""):
        headers = {"Content-Disposition": "attachment", "X-Diff-Cut": str(found.cut).lower()}
        return Response(found.patch, 200, headers, DIFF)
    return answer(difference_json(found))
