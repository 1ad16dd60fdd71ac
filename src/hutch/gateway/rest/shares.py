"""Who else may see a session, or work in it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import Path, Request
from pydantic import Field

from hutch.domain.user import ShareRole
from hutch.flows.sharing import share, shares_of, unshare
from hutch.flows.users import Accounts
from hutch.gateway.auth.caller import AGuard, Reader, Writer
from hutch.gateway.responses import In, Out, fields_from
from hutch.gateway.rest.route import router
from hutch.store.shares import Share

routes = router("shares")

SessionName = Annotated[str, Path(max_length=80)]
UserName = Annotated[str, Path(max_length=80, description="A user's name or id.")]


@fields_from(Share, "session_id user_id role created_by created_ms")
class ShareOut(Out):
    """A user's part in a session."""

    user_name: str = Field(description="What people call them.")


class NewShare(In):
    role: ShareRole


@routes.get("/sessions/{session_id}/shares")
async def list_shares(session_id: SessionName, who: Reader, guard: AGuard) -> list[ShareOut]:
    """With whom a session is shared; for whoever may manage it."""
    return await _told(guard.accounts, await shares_of(guard.accounts, who, session_id))


@routes.put("/sessions/{session_id}/shares/{user}")
async def set_share(
    session_id: SessionName, user: UserName, given: NewShare, request: Request, who: Writer, guard: AGuard
) -> ShareOut:
    """Share a session with a user, or change what they may: observers and assessors see, the others work."""
    made = await share(guard.accounts, who, session_id, user, given.role, guard.actor(request.scope, who))
    [told] = await _told(guard.accounts, [made])
    return told


@routes.delete("/sessions/{session_id}/shares/{user}", status_code=204)
async def remove_share(
    session_id: SessionName, user: UserName, request: Request, who: Reader, guard: AGuard
) -> None:
    """Take a share back, or give up one's own."""
    await unshare(guard.accounts, who, session_id, user, guard.actor(request.scope, who))


async def _told(accounts: Accounts, found: Sequence[Share]) -> list[ShareOut]:
    """Shares with names: who owns a session need not know all users."""
    ids = {each.user_id for each in found}
    names = await accounts.users.names(ids)
    return [ShareOut.model_validate({**asdict(each), "user_name": names[each.user_id]}) for each in found]
