"""Verdicts on changes: by people, and by the agent that reviews."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.errors import Denied, NotFound
from hutch.domain.review import Review, Verdict
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows import changes
from hutch.flows.access import check_may_open
from hutch.flows.decider import Decider
from hutch.flows.reviews import agent, people
from hutch.flows.reviews.publication import first_of
from hutch.flows.reviews.subject import find_change_at, find_subject
from hutch.flows.sessions import allowed
from hutch.flows.users import Actor
from hutch.forge.interface import Attempt
from hutch.gateway.auth.caller import AGuard, Reader, Writer
from hutch.gateway.context import Server
from hutch.gateway.idempotency import ByKeyWithRow, Once
from hutch.gateway.responses import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.comments import Body, Commit
from hutch.gateway.rest.route import PREFIX, router, server_of
from hutch.store.comments import Reviews

routes = router("changes")


class JudgeIn(In):
    """What is said with a verdict."""

    body: Body = ""
    commit: Commit = ""


class ReviewIn(In):
    """How a change is to be read."""

    instructions: Annotated[str, Field(max_length=20_000)] = Field("", description="What to look for.")
    model: Annotated[str, Field(max_length=500)] = Field("", description="`provider:name`.")
    max_cost: float | None = Field(None, gt=0, description="US dollars.")
    timeout_s: float | None = Field(None, gt=0)


class PullReviewIn(ReviewIn):
    """Which pull request is to be read, and how."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] = Field(
        examples=["https://github.com/example/project/pull/7"]
    )
    again: bool = Field(False, description="Though this commit was reviewed before.")


class UnderReviewOut(Out):
    """A review that is under way; `review.given` in the session's log tells its end."""

    session_id: str
    commit: str


@fields_from(Review, "id change_id author verdict title body commit session_id run_id url created_ms")
class ReviewOut(Out):
    """A verdict on a change, at one commit."""

    author: str = Field(description="A user's id, or `hutch`.")
    url: str = Field(description="Where it was posted; empty when it is only here.")


@routes.get(
    "/changes/{change_id}/reviews", operation_id="list_change_reviews", response_model=Page[ReviewOut]
)
async def listed(request: Request, who: Reader, change_id: str) -> Response:
    """The verdicts on a change, the oldest first."""
    services = server_of(request).services
    change = await changes.find(services, who, change_id)
    return page(
        request, [ReviewOut.of(each) for each in await Reviews(services.rows).of_change(change.id)], None
    )


@routes.post(
    "/changes/{change_id}/approve", status_code=201, operation_id="approve_change", response_model=ReviewOut
)
async def approve(
    request: Request,
    who: Writer,
    guard: AGuard,
    once: ByKeyWithRow,
    change_id: str,
    said: JudgeIn | None = None,
) -> Response:
    """Say that a change is good, as it is now."""
    actor = guard.actor(request.scope, who)
    return await _judge(request, who, actor, once, change_id, "approved", said)


@routes.post(
    "/changes/{change_id}/request-changes",
    status_code=201,
    operation_id="request_changes",
    response_model=ReviewOut,
)
async def request_changes(
    request: Request, who: Writer, guard: AGuard, once: ByKeyWithRow, change_id: str, said: JudgeIn
) -> Response:
    """Say what must be changed first."""
    actor = guard.actor(request.scope, who)
    return await _judge(request, who, actor, once, change_id, "changes_requested", said)


@routes.post(
    "/changes/{change_id}/review",
    status_code=202,
    operation_id="review_change",
    response_model=UnderReviewOut,
)
async def review(
    request: Request, who: Writer, once: ByKeyWithRow, change_id: str, how: ReviewIn | None = None
) -> Response:
    """Have an agent read a change. It leaves comments and a verdict, and edits nothing."""
    change = await changes.find(server_of(request).services, who, change_id, "input")
    return await _begin(request, who, once, change.repository, change.commit, change.id, how or ReviewIn())


@routes.post("/reviews", status_code=202, operation_id="review_pull_request", response_model=UnderReviewOut)
async def review_pull(request: Request, who: Writer, once: ByKeyWithRow, how: PullReviewIn) -> Response:
    """Have an agent read a pull request. What it finds is posted there, as one review.

    One of a session that you work in is a change: then it is a review of that, too.
    """
    server = server_of(request)
    check_may_open(who)  # before anything is fetched
    change_id = await _change_at(server, who, how.url)
    user = who.user.id
    repository, subject = await find_subject(server.changes, change_id or how.url, user=user)
    target = change_id or subject.pull_url

    async def may_see(session_id: str) -> bool:
        try:
            await allowed(server.services, who, session_id)
        except (NotFound, Denied):
            return False
        return True

    async with first_of(server.changes, subject, again=how.again, user=user, may_see=may_see):
        return await _begin(request, who, once, repository, subject.commit, target, how)


async def _change_at(server: Server, who: Caller, url: str) -> str:
    """The change that a pull request is, if they may speak about it: what others have read of it neither
    holds its merge back nor lets it through."""
    found = await find_change_at(server.changes, url)
    try:
        return (await changes.find(server.services, who, found.id, "input")).id if found else ""
    except (NotFound, Denied):
        return ""


async def _begin(
    request: Request, who: Caller, once: Once, repository: str, commit: str, target: str, how: ReviewIn
) -> Response:
    def told_of(session: Session) -> Response:
        told = {"session_id": session.id, "commit": commit}
        return answer(told, 202, {"Location": f"{PREFIX}/sessions/{session.id}"})

    session = await agent.submit(
        server_of(request).services,
        who,
        repository=repository,
        commit=commit,
        target=target,
        instructions=how.instructions,
        model=how.model,
        limits=RunLimits(cost_usd=how.max_cost, timeout_s=how.timeout_s),
        also=once.keep(lambda opened: told_of(opened.session)),
    )
    return told_of(session)


async def _judge(
    request: Request,
    who: Caller,
    actor: Actor,
    once: Once,
    change_id: str,
    verdict: Verdict,
    said: JudgeIn | None,
) -> Response:
    server = server_of(request)
    change = await changes.find(server.services, who, change_id, "input")
    said = said or JudgeIn()
    given = await people.judge(
        server.changes,
        change,
        verdict,
        author=who.user.id,
        body=server.redactor.redact(said.body),
        user=who.user.id,
        name=who.user.name,
        commit=said.commit,
        by=Decider(server.rows, actor, who.is_owner),
        attempt=Attempt(once.mark, once.tried_ms),
        also=once.keep(lambda given: answer(ReviewOut.of(given), 201)),
    )
    return answer(ReviewOut.of(given), 201)
