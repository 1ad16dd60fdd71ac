"""Verdicts on changes: by people, and by the agent that reviews."""

from typing import Any

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.review import Review, Verdict
from hutch.flows import changes, comments
from hutch.gateway.answers import In, Out, Page, answer, page
from hutch.gateway.auth.who import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.rest.comments import Body, Commit
from hutch.gateway.rest.route import router, server_of
from hutch.store.comments import Reviews

routes = router("changes")


class JudgeIn(In):
    """What is said with a verdict."""

    body: Body = ""
    commit: Commit = ""


class ReviewOut(Out):
    """A verdict on a change, at one commit."""

    id: str
    change_id: str
    author: str = Field(description="A user's id, or `hutch`.")
    verdict: Verdict
    title: str
    body: str
    commit: str
    session_id: str
    run_id: str
    created_ms: int


def told(review: Review) -> dict[str, Any]:
    return {name: getattr(review, name) for name in ReviewOut.model_fields}


@routes.get(
    "/changes/{change_id}/reviews", operation_id="list_change_reviews", response_model=Page[ReviewOut]
)
async def listed(request: Request, who: Reader, change_id: str) -> Response:
    """The verdicts on a change, the oldest first."""
    site = server_of(request).site
    change = await changes.find(site, who, change_id)
    return page(request, [told(each) for each in await Reviews(site.rows).of_change(change.id)], None)


@routes.post(
    "/changes/{change_id}/approve", status_code=201, operation_id="approve_change", response_model=ReviewOut
)
async def approve(
    request: Request, who: Writer, once: ByKey, change_id: str, said: JudgeIn | None = None
) -> Response:
    """Say that a change is good, as it is now."""
    return await _judge(request, who, change_id, "approved", said)


@routes.post(
    "/changes/{change_id}/request-changes",
    status_code=201,
    operation_id="request_changes",
    response_model=ReviewOut,
)
async def request_changes(
    request: Request, who: Writer, once: ByKey, change_id: str, said: JudgeIn
) -> Response:
    """Say what must be changed first."""
    return await _judge(request, who, change_id, "changes_requested", said)


async def _judge(
    request: Request, who: Writer, change_id: str, verdict: Verdict, said: JudgeIn | None
) -> Response:
    server = server_of(request)
    change = await changes.find(server.site, who, change_id, "input")
    said = said or JudgeIn()
    given = await comments.judge(
        server.rows,
        change,
        verdict,
        author=who.user.id,
        body=server.redactor.clean(said.body),
        commit=said.commit,
    )
    return answer(told(given), 201)
