"""Reviews of changes, by people and by the reviewing agent."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.errors import Denied, NotFound
from hutch.domain.review import Review, Verdict
from hutch.domain.run_limits import RunLimits
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows import changes_visible_to_caller
from hutch.flows.change_decision_audit import Decider
from hutch.flows.reviews import reviewing_agent, user_reviews
from hutch.flows.reviews.agent_review_publication import first_of
from hutch.flows.reviews.review_subject import find_change_at, find_subject
from hutch.flows.session_permissions import check_may_open
from hutch.flows.sessions import allowed
from hutch.flows.user_accounts import Actor
from hutch.forge.interface import Attempt
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.gateway_context import Server
from hutch.gateway.idempotency import ByKeyWithRow, KeyedRequest
from hutch.gateway.request_and_response_bodies import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.base_route import PREFIX, router, server_of
from hutch.gateway.rest.change_comments import Body, Commit
from hutch.store.comments_and_reviews import Reviews

routes = router("changes")


class JudgeIn(In):
    """The comment of a verdict."""

    body: Body = ""
    commit: Commit = ""


class ReviewIn(In):
    """Options of a review."""

    instructions: Annotated[str, Field(max_length=20_000)] = Field("", description="What to look for.")
    model: Annotated[str, Field(max_length=500)] = Field("", description="`provider:name`.")
    max_cost: float | None = Field(None, gt=0, description="US dollars.")
    timeout_s: float | None = Field(None, gt=0)


class PullReviewIn(ReviewIn):
    """The pull request to review, and options."""

    url: Annotated[str, Field(min_length=1, max_length=2048)] = Field(
        examples=["https://github.com/example/project/pull/7"]
    )
    again: bool = Field(False, description="Review even if this commit was reviewed before.")


class UnderReviewOut(Out):
    """A review in progress; the event `review.submitted` in the session's log ends it."""

    session_id: str
    commit: str


@fields_from(Review, "id change_id author verdict title body commit session_id run_id url created_ms")
class ReviewOut(Out):
    """A verdict on a change, at one commit."""

    author: str = Field(description="A user's id, or `hutch`.")
    url: str = Field(description="The URL where it was posted; empty if it was not.")


@routes.get(
    "/changes/{change_id}/reviews", operation_id="list_change_reviews", response_model=Page[ReviewOut]
)
async def listed(request: Request, caller: Reader, change_id: str) -> Response:
    """The verdicts on a change, the oldest first."""
    services = server_of(request).services
    change = await changes_visible_to_caller.find(services, caller, change_id)
    return page(
        request, [ReviewOut.of(each) for each in await Reviews(services.rows).of_change(change.id)], None
    )


@routes.post(
    "/changes/{change_id}/approve", status_code=201, operation_id="approve_change", response_model=ReviewOut
)
async def approve(
    request: Request,
    caller: Writer,
    authenticator: AuthenticatorDep,
    keyed: ByKeyWithRow,
    change_id: str,
    body: JudgeIn | None = None,
) -> Response:
    """Approve a change in its present state."""
    actor = authenticator.actor(request.scope, caller)
    return await _judge(request, caller, actor, keyed, change_id, "approved", body)


@routes.post(
    "/changes/{change_id}/request-changes",
    status_code=201,
    operation_id="request_changes",
    response_model=ReviewOut,
)
async def request_changes(
    request: Request,
    caller: Writer,
    authenticator: AuthenticatorDep,
    keyed: ByKeyWithRow,
    change_id: str,
    body: JudgeIn,
) -> Response:
    """Request changes before a merge."""
    actor = authenticator.actor(request.scope, caller)
    return await _judge(request, caller, actor, keyed, change_id, "changes_requested", body)


@routes.post(
    "/changes/{change_id}/review",
    status_code=202,
    operation_id="review_change",
    response_model=UnderReviewOut,
)
async def review(
    request: Request, caller: Writer, keyed: ByKeyWithRow, change_id: str, body: ReviewIn | None = None
) -> Response:
    """Have an agent review a change. It leaves comments and a verdict, and edits nothing."""
    change = await changes_visible_to_caller.find(server_of(request).services, caller, change_id, "input")
    return await _begin(
        request, caller, keyed, change.repository, change.commit, change.id, body or ReviewIn()
    )


@routes.post("/reviews", status_code=202, operation_id="review_pull_request", response_model=UnderReviewOut)
async def review_pull(request: Request, caller: Writer, keyed: ByKeyWithRow, body: PullReviewIn) -> Response:
    """Have an agent review a pull request, and post the review there.

    If the pull request is a change of a session that you work in, it is a review of that change too.
    """
    server = server_of(request)
    check_may_open(caller)  # before anything is fetched
    change_id = await _change_at(server, caller, body.url)
    user = caller.user.id
    repository, subject = await find_subject(server.changes, change_id or body.url, user=user)
    target = change_id or subject.pull_url

    async def may_see(session_id: str) -> bool:
        try:
            await allowed(server.services, caller, session_id)
        except (NotFound, Denied):
            return False
        return True

    async with first_of(server.changes, subject, again=body.again, user=user, may_see=may_see):
        return await _begin(request, caller, keyed, repository, subject.commit, target, body)


async def _change_at(server: Server, caller: Caller, url: str) -> str:
    """The change of a pull request, if the caller may review it; empty otherwise.

    Reviews by other callers neither block nor allow the merge of a change.
    """
    found = await find_change_at(server.changes, url)
    try:
        return (
            (await changes_visible_to_caller.find(server.services, caller, found.id, "input")).id
            if found
            else ""
        )
    except (NotFound, Denied):
        return ""


async def _begin(
    request: Request,
    caller: Caller,
    keyed: KeyedRequest,
    repository: str,
    commit: str,
    target: str,
    body: ReviewIn,
) -> Response:
    def started(session: Session) -> Response:
        payload = {"session_id": session.id, "commit": commit}
        return answer(payload, 202, {"Location": f"{PREFIX}/sessions/{session.id}"})

    session = await reviewing_agent.submit(
        server_of(request).services,
        caller,
        repository=repository,
        commit=commit,
        target=target,
        instructions=body.instructions,
        model=body.model,
        limits=RunLimits(cost_usd=body.max_cost, timeout_s=body.timeout_s),
        also=keyed.store_answer(lambda opened: started(opened.session)),
    )
    return started(session)


async def _judge(
    request: Request,
    caller: Caller,
    actor: Actor,
    keyed: KeyedRequest,
    change_id: str,
    verdict: Verdict,
    body: JudgeIn | None,
) -> Response:
    server = server_of(request)
    change = await changes_visible_to_caller.find(server.services, caller, change_id, "input")
    body = body or JudgeIn()
    judged = await user_reviews.judge(
        server.changes,
        change,
        verdict,
        author=caller.user.id,
        body=server.redactor.redact(body.body),
        user=caller.user.id,
        name=caller.user.name,
        commit=body.commit,
        by=Decider(server.rows, actor, caller.is_owner),
        attempt=Attempt(keyed.mark, keyed.tried_ms),
        also=keyed.store_answer(lambda judged: answer(ReviewOut.of(judged), 201)),
    )
    return answer(ReviewOut.of(judged), 201)
