"""Users, invites and the audit: for owners."""

from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.user import MAX_NAME_CHARS, Role, ShareRole, parse_name
from hutch.flows.users import MAX_INVITE_S
from hutch.gateway.auth.browser_session_start import base_url, log_in
from hutch.gateway.auth.caller_dependency import Admin, AuthenticatorDep, Reader
from hutch.gateway.responses import Cursor, Id, In, Limit, Out, Page, fields_from, paged
from hutch.gateway.rest.base_route import router
from hutch.gateway.rest.login import LoggedIn, Password, Secret, UserOut, user_out
from hutch.store.audit import AuditEntry
from hutch.store.one_time_links import Link

routes = router("users")

DAY_S = 24 * 3600
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
InvitedRole = Literal["member", "observer", "assessor", "candidate"]


class NewUser(In):
    name: Name
    role: Role = "member"


class ChangedUser(In):
    role: Role | None = None
    disabled: bool | None = None


class LinkOut(Out):
    """A link that works once; it is shown only once."""

    id: str
    url: str
    expires_ms: int


class NewInvite(In):
    role: InvitedRole = "observer"
    session_id: Id | None = Field(None, description="A session to share with the user who accepts.")
    share_role: ShareRole | None = None
    days: int = Field(7, ge=1, le=MAX_INVITE_S // DAY_S)


@fields_from(Link, "id role session_id share_role created_by created_ms expires_ms")
class InviteOut(Out):
    """An invite that was not accepted yet."""


class Accept(In):
    invite: Secret
    name: Name
    password: Password


class Join(In):
    invite: Secret


class Joined(Out):
    """The result of an accepted invite."""

    session_id: str | None
    share_role: ShareRole | None


@fields_from(AuditEntry, "id at_ms user_id credential_id action object address ok detail trace_id")
class AuditOut(Out):
    """One action or attempt."""


@routes.get("/users", response_model=Page[UserOut])
async def list_users(
    request: Request, caller: Admin, authenticator: AuthenticatorDep, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """All users, the oldest first."""
    found = await authenticator.accounts.users.list(after=cursor, limit=limit + 1)
    return paged(request, found, limit, UserOut)


@routes.post("/users", status_code=201)
async def add_user(
    body: NewUser, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> UserOut:
    """Add a user, who logs in by a link or a provider."""
    name = parse_name(body.name)
    return user_out(
        await authenticator.accounts.add_user(name, body.role, authenticator.actor(request.scope, caller))
    )


@routes.get("/users/{user_id}")
async def show_user(user_id: Id, caller: Admin, authenticator: AuthenticatorDep) -> UserOut:
    return user_out(await authenticator.accounts.users.get(user_id))


@routes.patch("/users/{user_id}")
async def change_user(
    user_id: Id, body: ChangedUser, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> UserOut:
    """Change a user's role, or disable the user. Effective at once for all their tokens and browsers."""
    actor = authenticator.actor(request.scope, caller)
    user = await authenticator.accounts.users.get(user_id)
    if body.role is not None:
        user = await authenticator.accounts.set_role(user_id, body.role, actor)
        authenticator.forget(user_id=user_id)
    if body.disabled is not None:
        user = await authenticator.accounts.set_disabled(user_id, body.disabled, actor)
        authenticator.forget(user_id=user_id)
    return user_out(user)


@routes.post("/users/{user_id}/link", status_code=201)
async def new_link(user_id: Id, request: Request, caller: Admin, authenticator: AuthenticatorDep) -> LinkOut:
    """A link that logs this user in once. It expires after a quarter of an hour."""
    user = await authenticator.accounts.users.get(user_id)
    created = await authenticator.accounts.new_link(user, authenticator.actor(request.scope, caller))
    return LinkOut(
        id=created.link.id,
        url=created.url(base_url(authenticator, request.scope)),
        expires_ms=created.link.expires_ms,
    )


@routes.get("/invites", response_model=Page[InviteOut])
async def list_invites(
    request: Request, caller: Admin, authenticator: AuthenticatorDep, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The open invites, the newest first."""
    found = await authenticator.accounts.links.invites(before=cursor, limit=limit + 1)
    return paged(request, found, limit, InviteOut)


@routes.post("/invites", status_code=201)
async def invite(
    body: NewInvite, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> LinkOut:
    """Create a link by which one person becomes a user."""
    created = await authenticator.accounts.invite(
        role=body.role,
        session_id=body.session_id,
        share_role=body.share_role,
        life_s=body.days * DAY_S,
        actor=authenticator.actor(request.scope, caller),
    )
    return LinkOut(
        id=created.link.id,
        url=created.url(base_url(authenticator, request.scope)),
        expires_ms=created.link.expires_ms,
    )


@routes.delete("/invites/{link_id}", status_code=204)
async def withdraw_invite(
    link_id: Id, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> None:
    """Withdraw an invite."""
    link = await authenticator.accounts.links.withdraw(link_id)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "invite.withdrawn", link.id)


@routes.post("/invites/accept", status_code=201)
async def accept_invite(
    body: Accept, request: Request, response: Response, authenticator: AuthenticatorDep
) -> LoggedIn:
    """Accept an invite as a new user, who is then logged in."""
    user = await authenticator.accounts.accept(
        body.invite, name=body.name, password=body.password, actor=authenticator.actor(request.scope)
    )
    csrf = await log_in(authenticator, request, response, user, "password")
    return LoggedIn(user=user_out(user), csrf=csrf)


@routes.post("/invites/join")
async def join_by_invite(
    body: Join, request: Request, caller: Reader, authenticator: AuthenticatorDep
) -> Joined:
    """Accept an invite as an existing user, to get its share."""
    link = await authenticator.accounts.join(
        body.invite, caller.user, authenticator.actor(request.scope, caller)
    )
    return Joined(session_id=link.session_id, share_role=link.share_role)


@routes.get("/audit")
async def read_audit(
    caller: Admin,
    authenticator: AuthenticatorDep,
    limit: Limit = 100,
    cursor: Annotated[
        int | None, Query(ge=1, le=2**63 - 1, description="`next` of the previous page.")
    ] = None,
) -> Page[AuditOut]:
    """The audit: actions with user and address, the newest first."""
    found = await authenticator.accounts.audit.list(before=cursor, limit=limit)
    items = [AuditOut.model_validate(entry) for entry in found]
    return Page(items=items, next=str(found[-1].id) if len(found) == limit else None)
