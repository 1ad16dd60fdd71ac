"""The newest events over all sessions that a caller may see, filtered by type, repository, user and text."""

from collections.abc import Sequence

from hutch.domain.event_query import parse_query
from hutch.domain.user import Caller, name_key
from hutch.flows.flow_services import Services
from hutch.store.newest_events_over_sessions import NewestEvents, Place
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

USER_ID = "usr_"


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Filters, as a caller writes them."""

    kinds: Sequence[str] = ()
    repository: str = ""
    user: str = ""  # a name or an id: the owner of the session
    text: str = ""


async def newest_events(
    services: Services,
    who: Caller,
    wanted: EventFilter,
    *,
    before: int | None = None,
    after: int | None = None,
    limit: int = 100,
) -> NewestEvents:
    """The newest events, newest first; with `after`, the next ones, oldest first."""
    who.need("read")
    user = await named_user(services.rows, who, wanted.user)
    place = Place(None if who.is_owner else str(who.user.id), user, wanted.repository)
    query = parse_query(text=wanted.text, kinds=wanted.kinds, now_ms=wall_ms())
    return await services.log.newest(place, query, before=before, after=after, limit=limit)


async def named_user(rows: Rows, who: Caller, name: str) -> str:
    """The id of the user in a filter. Only owners learn whether another user exists."""
    if name and who.is_owner and not name.startswith(USER_ID):  # that of an erased user is still in events
        return str((await Users(rows).find(name)).id)
    return str(who.user.id) if name_key(name) == name_key(who.user.name) else name


async def newest_position(services: Services) -> int:
    """The position after which a follower begins."""
    return await services.log.newest_position()
