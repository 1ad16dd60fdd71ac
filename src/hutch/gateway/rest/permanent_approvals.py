"""A user's permanent approvals: list and withdraw them."""

from typing import Annotated

from fastapi import Query, Request, Response

from hutch.agent.saved_approvals import SavedApprovals
from hutch.agent.tool_call_rules import Rule
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.request_and_response_bodies import Out, Page, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("approvals")

Tool = Annotated[str, Query(min_length=1, max_length=200, description="The tool, as in the list.")]
Pattern = Annotated[str, Query(max_length=20_000, description="The pattern, as in the list.")]


class ApprovalOut(Out):
    """A call that agents in the caller's sessions make without asking."""

    tool: str
    pattern: str


@routes.get("/me/approvals", response_model=Page[ApprovalOut])
async def list_approvals(request: Request, caller: Reader) -> Response:
    """All your permanent approvals, the oldest first."""
    found = await SavedApprovals(server_of(request).rows, caller.user.id).rules()
    return page(request, [{"tool": rule.tool, "pattern": rule.pattern} for rule in found], None)


@routes.delete("/me/approvals", status_code=204)
async def withdraw_approval(request: Request, caller: Writer, tool: Tool, pattern: Pattern = "") -> Response:
    """Withdraw a permanent approval. From the next run on, agents ask again."""
    saved = SavedApprovals(server_of(request).rows, caller.user.id)
    await saved.withdraw([Rule("allow", tool, pattern)])
    return Response(status_code=204)
