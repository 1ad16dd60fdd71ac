"""Changes for callers: a caller that may see a session may see the changes it proposed."""

from hutch.domain.errors import NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.proposed_change import Change, ChangeState
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.flows.session_permissions import Action
from hutch.flows.sessions import allowed
from hutch.store.proposed_changes import Changes


async def page(
    services: Services,
    who: Caller,
    *,
    session_id: str = "",
    state: ChangeState | None = None,
    before: str = "",
    limit: int = 50,
) -> list[Change]:
    """List changes, newest first. An owner sees all, including those of runs on the command line."""
    user_id = None if who.is_owner else who.user.id
    return await Changes(services.rows).list(
        user_id=user_id, session_id=session_id, state=state, before=before, limit=limit
    )


async def find(services: Services, who: Caller, change_id: str, action: Action = "read") -> Change:
    """A change, if the caller may take this action on its session. To merge or close is to manage."""
    change = await Changes(services.rows).get(change_id)
    if change is None:
        raise _no_change(change_id)
    if who.is_owner:  # including a change of the command line, whose session has no row
        who.need("read" if action == "read" else "write")
        return change
    try:
        await allowed(services, who, change.session_id, action)
    except NotFound:
        raise _no_change(change_id) from None
    return change


def _no_change(change_id: str) -> NotFound:
    return NotFound(f"There is no change {echo(change_id, 80)}.")
