"""The users that a session is shared with."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import Path, Request
from pydantic import Field

from hutch.domain.user import SHARE_SCOPES, ShareRole, ShareScope
from hutch.flows.session_sharing import access_of, share, shares_of, unshare
from hutch.flows.user_accounts import Accounts
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.request_and_response_bodies import MAX_SIZE, In, Out, fields_from
from hutch.gateway.rest.base_route import router
from hutch.store.shares import Share

routes = router("shares")

SessionName = Annotated[str, Path(max_length=80)]
UserName = Annotated[str, Path(max_length=80, description="A user's name or id.")]


@fields_from(Share, "session_id user_id role created_by created_ms expires_ms")
class ShareOut(Out):
    """A user's role in a session."""

    user_name: str = Field(description="The user's name.")
    scopes: list[str] = Field(description="What the user may do; empty: all that the role includes.")


class AccessOut(Out):
    """Your permissions in a session."""

    actions: list[Literal["read", "edit", "input", "manage"]] = Field(
        description="`read`: see it; `edit`: edit its documents with others; `input`: work in it; `manage`: "
        "share, end or delete it."
    )
    role: ShareRole | None = Field(description="Your role in it, if it is shared with you.")
    scopes: list[ShareScope] = Field(description="The work that your share is limited to; empty: no limit.")
    expires_ms: int | None = Field(description="When your share ends.")


class NewShare(In):
    role: ShareRole
    scopes: list[ShareScope] = Field(
        default_factory=list,
        max_length=len(SHARE_SCOPES),
        description="What the user may do, besides reading; empty: all that the role includes.",
    )
    expires_ms: int | None = Field(None, ge=1, le=MAX_SIZE, description="When the share ends.")


@routes.get("/sessions/{session_id}/access")
async def get_access(session_id: SessionName, caller: Reader, authenticator: AuthenticatorDep) -> AccessOut:
    """Your permissions in a session."""
    access = await access_of(authenticator.accounts, caller, session_id)
    share = access.share
    return AccessOut(
        actions=list(access.actions),
        role=share.role if share else None,
        scopes=list(share.scopes) if share else [],
        expires_ms=share.expires_ms if share else None,
    )


@routes.get("/sessions/{session_id}/shares")
async def list_shares(
    session_id: SessionName, caller: Reader, authenticator: AuthenticatorDep
) -> list[ShareOut]:
    """The users that a session is shared with; for callers who may manage it."""
    return await _shares_out(
        authenticator.accounts, await shares_of(authenticator.accounts, caller, session_id)
    )


@routes.put("/sessions/{session_id}/shares/{user}")
async def set_share(
    session_id: SessionName,
    user: UserName,
    body: NewShare,
    request: Request,
    caller: Writer,
    authenticator: AuthenticatorDep,
) -> ShareOut:
    """Share a session with a user, or change their role. Observers and assessors can only view."""
    made = await share(
        authenticator.accounts,
        caller,
        session_id,
        user,
        body.role,
        authenticator.actor(request.scope, caller),
        scopes=tuple(scope for scope in SHARE_SCOPES if scope in body.scopes),
        expires_ms=body.expires_ms,
    )
    authenticator.access_changes.notify(user_id=made.user_id)
    [shared] = await _shares_out(authenticator.accounts, [made])
    return shared


@routes.delete("/sessions/{session_id}/shares/{user}", status_code=204)
async def remove_share(
    session_id: SessionName, user: UserName, request: Request, caller: Reader, authenticator: AuthenticatorDep
) -> None:
    """Withdraw a share, or give up your own."""
    user_id = await unshare(
        authenticator.accounts, caller, session_id, user, authenticator.actor(request.scope, caller)
    )
    authenticator.access_changes.notify(user_id=user_id)


async def _shares_out(accounts: Accounts, found: Sequence[Share]) -> list[ShareOut]:
    """Shares with names, because an owner of a session may not list all users."""
    ids = {each.user_id for each in found}
    names = await accounts.users.names(ids)
    return [ShareOut.model_validate({**asdict(each), "user_name": names[each.user_id]}) for each in found]
