"""Shares sessions with existing users, on behalf of callers that may manage them."""

from typing import get_args

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.session import Session
from hutch.domain.user import Caller, ShareRole, ShareScope, scopes_of
from hutch.flows.session_permissions import Action, actions, check, no_session
from hutch.flows.user_accounts import Accounts, Actor
from hutch.store.sessions import Sessions
from hutch.store.shares import Share
from hutch.system.lazy_dataclass import dataclass


async def reach(accounts: Accounts, who: Caller, session_id: str, action: Action) -> Session:
    """The session, if the caller may take this action. Callers that may not see it get a 404."""
    try:
        session = await Sessions(accounts.rows).get(session_id)
    except NotFound:
        raise no_session(session_id) from None
    role = await accounts.shares.role(session_id, who.user.id)
    check(who, session_id, session.owner, role, action)
    return session


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of a caller in a session."""

    actions: tuple[Action, ...]
    share: Share | None  # None for its owner, and for owners of the installation without a share


async def access_of(accounts: Accounts, who: Caller, session_id: str) -> Access:
    """The permissions of the caller in a session that they may see."""
    session = await reach(accounts, who, session_id, "read")
    share = await accounts.shares.find(session_id, who.user.id)
    role, scopes = (share.role, share.scopes) if share else (None, ())
    allowed = actions(who, session.owner, role, scopes)
    return Access(tuple(each for each in get_args(Action) if each in allowed), share)


async def shares_of(accounts: Accounts, who: Caller, session_id: str) -> list[Share]:
    await reach(accounts, who, session_id, "manage")
    return await accounts.shares.of_session(session_id)


async def share(
    accounts: Accounts,
    who: Caller,
    session_id: str,
    name: str,
    role: ShareRole,
    actor: Actor,
    *,
    scopes: tuple[ShareScope, ...] = (),
    expires_ms: int | None = None,
) -> Share:
    """Give a user, by name or id, a role in a session, or change it."""
    session = await reach(accounts, who, session_id, "manage")
    user = await accounts.users.find(name)
    if user.id == session.owner:
        raise BadRequest(f"The session belongs to {user.name}; there is nothing to share.")
    if scopes and role not in ("member", "candidate"):
        raise BadRequest(f"Scopes limit work in a session, and {role} only views it. Omit them.")
    made = await accounts.shares.set(
        session_id, user.id, role, created_by=who.user.id, scopes=scopes, expires_ms=expires_ms
    )
    await accounts.note(actor, "session.shared", session_id, detail=f"{user.id} {role}")
    return made


async def unshare(accounts: Accounts, who: Caller, session_id: str, name: str, actor: Actor) -> str:
    """Remove a user's share, and return their id. A user may also give up their own, but not with a token
    that may only read."""
    if "write" in scopes_of(who.user.role):
        who.need("write")
    own = name in (who.user.id, who.user.name)
    await reach(accounts, who, session_id, "read" if own else "manage")
    user = who.user if own else await accounts.users.find(name)
    await accounts.shares.remove(session_id, user.id)
    await accounts.note(actor, "session.unshared", session_id, detail=user.id)
    return user.id
