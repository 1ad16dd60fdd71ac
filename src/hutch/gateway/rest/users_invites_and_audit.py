"""Users, invites and the audit: for owners."""

from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.user import MAX_NAME_CHARS, SHARE_SCOPES, Role, ShareRole, ShareScope, parse_name
from hutch.flows import user_erasure
from hutch.flows.user_accounts import MAX_INVITE_S
from hutch.flows.user_erasure import Erased, ErasurePlan
from hutch.gateway.auth.browser_login import base_url, log_in
from hutch.gateway.auth.caller_dependency import Admin, AuthenticatorDep, Reader
from hutch.gateway.request_and_response_bodies import (
    Cursor,
    Id,
    In,
    Limit,
    Out,
    Page,
    answer,
    fields_from,
    paged,
)
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.login_and_account import LoggedIn, Password, Secret, UserOut, user_out
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


class EraseUser(In):
    """Choices for the sessions of a user, and for events of other sessions with their name."""

    sessions: Literal["erase"] | None = Field(None, description="Erase the sessions that the user owns.")
    heir: Name | None = Field(None, description="The user who gets these sessions instead.")
    mentions: Literal["erase", "keep"] | None = Field(
        None, description="Whether the content of events with the user's name is erased."
    )


@fields_from(ErasurePlan)
class ErasurePlanOut(Out):
    """The sessions and events that an erasure would affect."""


@fields_from(Erased)
class ErasedOut(Out):
    """The result of an erasure, and what remains."""


class LinkOut(Out):
    """A link that works once; it is shown only once."""

    id: str
    url: str
    expires_ms: int


class NewInvite(In):
    role: InvitedRole = "observer"
    session_id: Id | None = Field(None, description="A session to share with the user who accepts.")
    more_sessions: list[Id] = Field(default_factory=list, max_length=50, description="Further sessions.")
    share_role: ShareRole | None = Field(None, description="The role in these sessions.")
    share_scopes: list[ShareScope] = Field(
        default_factory=list,
        max_length=len(SHARE_SCOPES),
        description="What the user may do in them, besides reading; empty: all that the role includes.",
    )
    access_hours: int | None = Field(
        None, ge=1, le=MAX_INVITE_S // 3600, description="Hours from now after which the access ends."
    )
    days: int = Field(7, ge=1, le=MAX_INVITE_S // DAY_S, description="Days in which it can be accepted.")


@fields_from(
    Link,
    "id role session_id more_sessions share_role share_scopes access_until_ms created_by created_ms "
    "expires_ms",
)
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
    more_sessions: list[str]
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


@routes.get("/users/{user_id}/erasure", response_model=ErasurePlanOut)
async def plan_erasure(
    user_id: Id, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> Response:
    """The sessions and events that the erasure of a user would affect."""
    user = await authenticator.accounts.users.get(user_id)
    return answer(await user_erasure.plan(server_of(request).services, user))


@routes.post("/users/{user_id}/erase", response_model=ErasedOut)
async def erase_user(
    user_id: Id, body: EraseUser, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> Response:
    """Erase a user: account, credentials, preferences, keys and shares; sessions and name as you choose.

    It can be repeated if it was interrupted. The answer says what remains, and why.
    """
    erased = await user_erasure.erase(
        server_of(request).services,
        caller,
        user_id,
        heir=body.heir,
        erases_sessions=body.sessions == "erase",
        mentions=body.mentions,
        actor=authenticator.actor(request.scope, caller),
    )
    authenticator.forget(user_id=user_id)
    return answer(erased)


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
        more_sessions=body.more_sessions,
        share_role=body.share_role,
        share_scopes=body.share_scopes,
        access_s=None if body.access_hours is None else body.access_hours * 3600,
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
    return Joined(
        session_id=link.session_id, more_sessions=list(link.more_sessions), share_role=link.share_role
    )


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
