"""Who else may see a session, or work in it."""

from typing import Annotated

from fastapi import Path, Request

from hutch.domain.user import ShareRole
from hutch.flows.sharing import share, shares_of, unshare
from hutch.gateway.answers import In, Out
from hutch.gateway.auth.who import AGuard, Reader, Writer
from hutch.gateway.rest.route import router

routes = router("shares")

SessionName = Annotated[str, Path(max_length=80)]
UserName = Annotated[str, Path(max_length=80, description="A user's name or id.")]


class ShareOut(Out):
    """A user's part in a session."""

    session_id: str
    user_id: str
    role: ShareRole
    created_by: str
    created_ms: int


class NewShare(In):
    role: ShareRole


@routes.get("/sessions/{session_id}/shares")
async def list_shares(session_id: SessionName, who: Reader, guard: AGuard) -> list[ShareOut]:
    """With whom a session is shared; for whoever may manage it."""
    return [ShareOut.model_validate(each) for each in await shares_of(guard.accounts, who, session_id)]


@routes.put("/sessions/{session_id}/shares/{user}")
async def set_share(
    session_id: SessionName, user: UserName, given: NewShare, request: Request, who: Writer, guard: AGuard
) -> ShareOut:
    """Share a session with a user, or change what they may: observers and assessors see, the others work."""
    made = await share(guard.accounts, who, session_id, user, given.role, guard.actor(request.scope, who))
    return ShareOut.model_validate(made)


@routes.delete("/sessions/{session_id}/shares/{user}", status_code=204)
async def remove_share(
    session_id: SessionName, user: UserName, request: Request, who: Reader, guard: AGuard
) -> None:
    """Take a share back, or give up one's own."""
    await unshare(guard.accounts, who, session_id, user, guard.actor(request.scope, who))
