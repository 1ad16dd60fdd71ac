"""The context of flows about changes; `app/` builds it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from hutch.domain.proposed_change import Change
from hutch.domain.redaction import Redactor
from hutch.forge.forge_and_credential_selection import Forges
from hutch.forge.interface import Forge
from hutch.store.event_log_interface import EventLog
from hutch.store.proposed_changes import Changes
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass

Lock = Callable[[str], AbstractAsyncContextManager[None]]  # one holder of a name in this installation


@dataclass(frozen=True, slots=True)
class ChangeContext:
    """The rows of changes, the logs of their sessions, and their forges."""

    rows: Rows
    log: EventLog
    forges: Forges
    redactor: Redactor
    lock: Lock
    author: str  # of commits, when no other author is named

    async def forge_of(self, change: Change, user: str = "") -> Forge:
        """The forge of a change, for a user. A local one is limited to what the session's owner may use."""
        unrestricted = await Changes(self.rows).is_of_owner(change)
        return self.forges.for_change(change, user, unrestricted=unrestricted)
