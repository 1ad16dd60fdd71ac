"""A session is shared: by whoever may manage it, with somebody who is a user already."""

from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.session import Session
from hutch.domain.user import Caller, ShareRole
from hutch.flows.access import Action, check, no_session
from hutch.flows.users import Accounts, Actor
from hutch.store.sessions import Sessions
from hutch.store.shares import Share


async def reach(accounts: Accounts, who: Caller, session_id: str, action: Action) -> Session:
    """The session, if this is allowed; to who may not see it, it does not exist."""
    try:
        session = await Sessions(accounts.rows).get(session_id)
    except NotFound:
        raise no_session(session_id) from None
    role = await accounts.shares.role(session_id, who.user.id)
    check(who, session_id, session.owner, role, action)
    return session


async def shares_of(accounts: Accounts, who: Caller, session_id: str) -> list[Share]:
    await reach(accounts, who, session_id, "manage")
    return await accounts.shares.of_session(session_id)


async def share(
    accounts: Accounts, who: Caller, session_id: str, name: str, role: ShareRole, actor: Actor
) -> Share:
    """Let a user, by name or id, see a session or work in it; or change what they may."""
    session = await reach(accounts, who, session_id, "manage")
    user = await accounts.users.find(name)
    if user.id == session.owner:
        raise BadRequest(f"The session belongs to {user.name}; there is nothing to share.")
    made = await accounts.shares.set(session_id, user.id, role, created_by=who.user.id)
    await accounts.note(actor, "session.shared", session_id, detail=f"{user.id} {role}")
    return made


async def unshare(accounts: Accounts, who: Caller, session_id: str, name: str, actor: Actor) -> None:
    """Take a share back; or give up one's own."""
    own = name in (who.user.id, who.user.name)
    await reach(accounts, who, session_id, "read" if own else "manage")
    user = who.user if own else await accounts.users.find(name)
    await accounts.shares.remove(session_id, user.id)
    await accounts.note(actor, "session.unshared", session_id, detail=user.id)
