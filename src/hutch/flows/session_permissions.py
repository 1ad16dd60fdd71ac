"""The permissions of callers on sessions.

The installation's owners and the session's owner may do everything. Other users need a share:
`member` and `candidate` see it and work in it, `observer` and `assessor` only see it. An assessor whose share
names the scope `files` also edits its documents, together with the others, and nothing else.
All other callers get the same 404 as for a session that does not exist.
Only owners and members of the installation open sessions, by any interface, forks included.
"""

from typing import Literal

from hutch.domain.errors import Denied, NotFound
from hutch.domain.log_entry_audience import Reader
from hutch.domain.one_line_text import echo
from hutch.domain.session import Session
from hutch.domain.user import Caller, Role, ShareRole, ShareScope
from hutch.forge.forge_and_credential_selection import ForgeAccess
from hutch.sessions.host_dependencies_and_callbacks import HostDependencies
from hutch.store.shares import Share
from hutch.store.users import Users

Action = Literal["read", "edit", "input", "manage"]
"""See it; edit its documents with others; work in it; share, end or delete it."""

_OF_SHARE: dict[ShareRole, frozenset[Action]] = {
    "member": frozenset({"read", "edit", "input"}),
    "candidate": frozenset({"read", "edit", "input"}),
    "observer": frozenset({"read"}),
    "assessor": frozenset({"read"}),
}
OPENERS: tuple[Role, ...] = ("owner", "member")
EVERYTHING: frozenset[Action] = frozenset({"read", "edit", "input", "manage"})


def actions(
    who: Caller, session_owner: str, share_role: ShareRole | None, scopes: tuple[ShareScope, ...] = ()
) -> frozenset[Action]:
    """The actions that a caller may take: those of the role in the session, limited by the token's scopes.
    `scopes` are those of the share."""
    if who.is_owner or who.user.id == session_owner:
        allowed = EVERYTHING
    else:
        allowed = _OF_SHARE[share_role] if share_role else frozenset()
    if "write" not in who.scopes:
        allowed &= {"read"}
    edits = share_role == "assessor" and "files" in scopes and "input" not in allowed
    # Users with the role assessor have only the scope read: the share decides.
    if edits and ("write" in who.scopes or who.user.role == "assessor"):
        allowed |= {"edit"}
    return allowed if "read" in who.scopes else frozenset()


def may(who: Caller, session_owner: str, share_role: ShareRole | None, action: Action) -> bool:
    return action in actions(who, session_owner, share_role)


def reader(who: Caller, session_owner: str, share_role: ShareRole | None) -> Reader:
    """The caller as a reader of the log. Of those with a share, only assessors are on the owner's side."""
    owner_side = who.is_owner or who.user.id == session_owner or share_role == "assessor"
    return Reader(who.user.id, owner_side)


def check(
    who: Caller,
    session_id: str,
    session_owner: str,
    share_role: ShareRole | None,
    action: Action,
    scopes: tuple[ShareScope, ...] = (),
) -> None:
    """Refuse an action that is not allowed, with a 404 for callers that may not see the session."""
    allowed = actions(who, session_owner, share_role, scopes)
    if "read" not in allowed:
        raise no_session(session_id)
    if action not in allowed:
        what = {"read": "see", "edit": "edit files of", "input": "work in", "manage": "manage"}[action]
        raise Denied(f"{who.user.name} can view session {session_id} but not {what} it.")


def check_scope(share: Share, scope: ShareScope) -> None:
    """Refuse what the invitation to a session does not include."""
    if not share.includes(scope):
        raise Denied(
            f"Your invitation to session {share.session_id} does not include {scope}; it includes: "
            f"{', '.join(('read', *share.scopes))}. Ask the session's owner for more."
        )


def check_may_open(who: Caller) -> None:
    """Refuse a caller who may not open sessions: candidates work in those that are shared with them."""
    who.need("write")
    if who.user.role not in OPENERS:
        raise Denied(
            f"{who.user.name} is {who.user.role}, and may not open sessions. Ask to be invited to one. "
            f"An owner can change the role: hutch users role {who.user.name} member"
        )


def no_session(session_id: str) -> NotFound:
    """The error for a session that does not exist, or that the caller may not see."""
    return NotFound(f"There is no session {echo(session_id, 80)}.")


async def caller_of(dependencies: HostDependencies, session: Session) -> ForgeAccess:
    """The access to a session's repository. Owners may use the account that runs this server."""
    try:
        is_owner = (await Users(dependencies.rows).get(session.owner)).role == "owner"
    except NotFound:
        is_owner = False
    return ForgeAccess(session.owner if dependencies.guarded else "", dependencies.guarded, is_owner)
