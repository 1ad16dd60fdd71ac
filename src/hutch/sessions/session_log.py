"""The log of one session, as those who work in it see it."""

from collections.abc import Sequence
from typing import Protocol

from hutch.domain.events import Event


class SessionLog(Protocol):
    async def append(self, events: Sequence[Event]) -> int:
        """Write events, with what the jail has reported meanwhile."""
        ...

    async def recorded(self) -> None:
        """Wait until all that was written is on disk; raise when something could not be."""
        ...

    async def admit(self) -> None:
        """Raise when something that is about to begin could not be recorded."""
        ...

    @property
    def admits(self) -> bool:
        """What `admit` says, as far as that is known without waiting."""
        ...

    @property
    def is_running(self) -> bool:
        """True while an agent works in the session."""
        ...
