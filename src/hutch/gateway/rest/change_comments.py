"""Comments on the lines of a change."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.git_patch import Side
from hutch.domain.review import Comment, Remark, Severity
from hutch.flows import changes_visible_to_caller
from hutch.flows.reviews.user_reviews import comment
from hutch.forge.interface import Attempt
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey, ByKeyWithRow
from hutch.gateway.request_and_response_bodies import (
    Cursor,
    Id,
    In,
    Limit,
    Out,
    Page,
    answer,
    fields_from,
    paged,
)
from hutch.gateway.rest.base_route import router, server_of
from hutch.store.comments_and_reviews import Comments

routes = router("changes")

MAX_BODY = 20_000
Body = Annotated[str, Field(max_length=MAX_BODY)]
Commit = Annotated[
    str, Field(max_length=40, description="The reviewed commit; refused if it is not the newest.")
]


class CommentIn(In):
    """A new comment on a line."""

    path: Annotated[str, Field(min_length=1, max_length=4096)] = Field(examples=["src/slug.py"])
    line: int = Field(ge=1, le=100_000_000)
    side: Side = Field("new", description="`old` is for a line that the change removes.")
    body: Annotated[str, Field(min_length=1, max_length=MAX_BODY)]
    severity: Severity | None = None
    commit: Commit = ""


@fields_from(
    Comment,
    "id change_id review_id author path line side severity body commit created_ms resolved_ms resolved_by",
)
class CommentOut(Out):
    """A comment on a line."""

    review_id: str = Field(description="The review that it belongs to; empty if there is none.")
    author: str = Field(description="A user's id, or `hutch`.")
    severity: str = Field(description="`blocker`, `should`, `could`, or empty.")
    resolved_ms: int = Field(description="0 until it is resolved.")


@routes.get(
    "/changes/{change_id}/comments", operation_id="list_change_comments", response_model=Page[CommentOut]
)
async def listed(
    request: Request,
    caller: Reader,
    change_id: str,
    resolved: bool | None = None,
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """The comments on a change, the oldest first."""
    services = server_of(request).services
    change = await changes_visible_to_caller.find(services, caller, change_id)
    found = await Comments(services.rows).of_change(
        change.id, resolved=resolved, after=cursor, limit=limit + 1
    )
    return paged(request, found, limit, CommentOut)


@routes.post(
    "/changes/{change_id}/comments",
    status_code=201,
    operation_id="comment_on_change",
    response_model=CommentOut,
)
async def add(
    request: Request, caller: Writer, keyed: ByKeyWithRow, change_id: str, new: CommentIn
) -> Response:
    """Comment on a line of a change, or of a file that it touches."""
    server = server_of(request)
    change = await changes_visible_to_caller.find(server.services, caller, change_id, "input")
    remark = Remark(
        path=new.path,
        line=new.line,
        side=new.side,
        severity=new.severity,
        body=server.redactor.redact(new.body),
    )
    made, _ = await comment(
        server.changes,
        change,
        remark,
        author=caller.user.id,
        user=caller.user.id,
        name=caller.user.name,
        commit=new.commit,
        attempt=Attempt(keyed.mark, keyed.tried_ms),
        also=keyed.store_answer(lambda made: answer(CommentOut.of(made), 201)),
    )
    return answer(CommentOut.of(made), 201)


@routes.post(
    "/changes/{change_id}/comments/{comment_id}/resolve",
    operation_id="resolve_change_comment",
    response_model=CommentOut,
)
async def resolve(request: Request, caller: Writer, keyed: ByKey, change_id: str, comment_id: Id) -> Response:
    """Mark a comment as resolved."""
    services = server_of(request).services
    change = await changes_visible_to_caller.find(services, caller, change_id, "input")
    resolved = await Comments(services.rows).resolve(change.id, comment_id, caller.user.id)
    return answer(CommentOut.of(resolved))
