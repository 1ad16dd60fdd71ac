"""What somebody has allowed always, and how they withdraw it."""

from typing import Annotated

from fastapi import Query, Request, Response

from hutch.agent.kept import KeptApprovals
from hutch.agent.policy import Rule
from hutch.gateway.auth.caller import Reader, Writer
from hutch.gateway.responses import Out, Page, page
from hutch.gateway.rest.route import router, server_of

routes = router("approvals")

Tool = Annotated[str, Query(min_length=1, max_length=200, description="As the list has it.")]
Pattern = Annotated[str, Query(max_length=20_000, description="As the list has it.")]


class ApprovalOut(Out):
    """What agents of the caller's sessions do without asking."""

    tool: str
    pattern: str


@routes.get("/me/approvals", response_model=Page[ApprovalOut])
async def list_approvals(request: Request, caller: Reader) -> Response:
    """What you have allowed always, the oldest first; all of it at once."""
    found = await KeptApprovals(server_of(request).rows, caller.user.id).rules()
    return page(request, [{"tool": rule.tool, "pattern": rule.pattern} for rule in found], None)


@routes.delete("/me/approvals", status_code=204)
async def withdraw_approval(request: Request, caller: Writer, tool: Tool, pattern: Pattern = "") -> Response:
    """Withdraw what you have allowed: from the next run on it is asked about again."""
    saved = KeptApprovals(server_of(request).rows, caller.user.id)
    await saved.withdraw([Rule("allow", tool, pattern)])
    return Response(status_code=204)
