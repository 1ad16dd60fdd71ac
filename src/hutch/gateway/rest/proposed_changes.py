"""Changes that runs have proposed: read, merge or close them."""

import asyncio
from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.proposed_change import Change, ChangeState, ForgeName
from hutch.flows import change_diff_merge_and_close
from hutch.flows import changes_visible_to_caller as flow
from hutch.flows.change_decision_audit import Decider
from hutch.forge.interface import Strategy
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.idempotency import ByKeyToManage
from hutch.gateway.request_and_response_bodies import Cursor, In, Limit, Out, Page, answer, fields_from, paged
from hutch.gateway.rest.base_route import router, server_of
from hutch.sessions.response_redaction import clean_bytes

routes = router("changes")

DIFF = "text/x-diff"


@fields_from(
    Change,
    "id session_id run_id repository branch base base_commit commit title body tests state created_ms "
    "merged_commit forge number",
)
class ChangeOut(Out):
    """A branch with a commit to review and merge."""

    id: str = Field(examples=["chg_01jd2m4c9k7w6t0q8n5x3vbaeh"])
    base: str = Field(description="The branch to merge into.")
    tests: str = Field(description="The test result in one line; empty if there are no tests.")
    forge: ForgeName = Field(description="`git` is a remote repository without pull requests.")
    number: int = Field(description="The number of the pull request; 0 if there is none.")
    url: str = Field(description="The URL of its page.")


class MergeIn(In):
    """Options of a merge."""

    strategy: Strategy | None = Field(
        None,
        description="`fast-forward` makes no commit, `merge` one with two parents, `squash` a new one; "
        "`rebase` is for pull requests. The default is fast-forward if possible, else merge; for a pull "
        "request, the method that its repository allows.",
    )
    force: bool = Field(
        False,
        description="Merge even if tests fail or changes were requested; the response lists them. For a pull "
        "request this needs your own token, or an owner.",
    )


class MergedOut(Out):
    """A change that is in its base branch."""

    id: str
    base: str
    commit: str = Field(description="The new head of the base branch; empty if the forge did not return it.")
    branch_stays: str = Field(description="Why the change's own branch was not deleted; empty if it was.")
    overridden: list[str] = Field(description="The objections that `force` overrode.")


class ObjectionsOut(Out):
    """Objections to the merge of a change."""

    items: list[str] = Field(
        description="Failing tests, requested changes, an undone run. A forge may add objections of its own "
        "when the change is merged.",
        examples=[["its tests fail (1 failed, 11 passed)"]],
    )


@routes.get("/changes", operation_id="list_changes", response_model=Page[ChangeOut])
async def listed(
    request: Request,
    caller: Reader,
    state: ChangeState | None = None,
    session: Annotated[str, Query(max_length=80, description="Only changes of this session.")] = "",
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """The changes of sessions that you may see, the newest first."""
    found = await flow.page(
        server_of(request).services, caller, session_id=session, state=state, before=cursor, limit=limit + 1
    )
    return paged(request, found, limit, ChangeOut)


@routes.get("/changes/{change_id}", operation_id="get_change", response_model=ChangeOut)
async def show(request: Request, caller: Reader, change_id: str) -> Response:
    """One change."""
    return answer(ChangeOut.of(await flow.find(server_of(request).services, caller, change_id)))


@routes.get(
    "/changes/{change_id}/diff",
    operation_id="get_change_diff",
    response_class=Response,
    responses={200: {"description": "A patch.", "content": {DIFF: {"schema": {"type": "string"}}}}},
)
async def diff(request: Request, caller: Reader, change_id: str) -> Response:
    """A change as a patch."""
    server = server_of(request)
    change = await flow.find(server.services, caller, change_id)
    patch = await change_diff_merge_and_close.diff(server.changes, change, user=caller.user.id)
    patch = await asyncio.to_thread(clean_bytes, patch, server.redactor)
    return Response(patch, 200, {"Content-Disposition": "attachment"}, DIFF)


@routes.get("/changes/{change_id}/objections", operation_id="list_objections", response_model=ObjectionsOut)
async def objections(request: Request, caller: Reader, change_id: str) -> Response:
    """The objections to a merge of the change: without `force` it is refused while there are any."""
    server = server_of(request)
    change = await flow.find(server.services, caller, change_id)
    found = await change_diff_merge_and_close.objections(server.changes, change)
    return answer({"items": [server.redactor.redact(each) for each in found]})


@routes.post("/changes/{change_id}/merge", operation_id="merge_change", response_model=MergedOut)
async def merge(
    request: Request,
    caller: Writer,
    authenticator: AuthenticatorDep,
    keyed: ByKeyToManage,
    change_id: str,
    body: MergeIn | None = None,
) -> Response:
    """Merge a change into its base branch. Failing tests, requested changes or an undone run need `force`."""
    server = server_of(request)
    found = await flow.find(server.services, caller, change_id, "manage")
    done = await change_diff_merge_and_close.merge(
        server.changes,
        found,
        strategy=body.strategy if body else None,
        force=body is not None and body.force,
        author=server.changes.author,
        user=caller.user.id,
        by=Decider(server.rows, authenticator.actor(request.scope, caller), caller.is_owner),
    )
    result = {"commit": done.commit, "branch_stays": done.branch_stays, "overridden": done.overridden}
    return answer({"id": done.change.id, "base": done.change.base, **result})


@routes.post("/changes/{change_id}/close", status_code=204, operation_id="close_change")
async def close(
    request: Request, caller: Writer, authenticator: AuthenticatorDep, keyed: ByKeyToManage, change_id: str
) -> Response:
    """Close a change and delete its branch."""
    server = server_of(request)
    found = await flow.find(server.services, caller, change_id, "manage")
    by = Decider(server.rows, authenticator.actor(request.scope, caller), caller.is_owner)
    await change_diff_merge_and_close.close(server.changes, found, user=caller.user.id, by=by)
    return Response(status_code=204)
