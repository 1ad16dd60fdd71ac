"""Write access to a terminal: for all clients that may work in the session, or for one at a time.

With one writer, it is the first client. Others can take over, and all clients are
notified. When the writer leaves, the next client in order of arrival becomes the writer.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Literal

from hutch.domain.errors import Denied
from hutch.system.lazy_dataclass import dataclass

Mode = Literal["one", "many"]


@dataclass(eq=False, slots=True)
class TerminalClient:
    """One client of a terminal."""

    name: str
    writes: bool  # whether the session grants write access
    changed: Callable[[], None]  # called when the writer may have changed


@dataclass(slots=True)
class TerminalWriters:
    """The clients of one terminal."""

    mode: Mode = "many"
    clients: list[TerminalClient] = field(default_factory=list)  # in order of arrival
    holder: TerminalClient | None = None

    def join(self, client: TerminalClient, mode: Mode) -> None:
        self.clients.append(client)
        if mode == "one" and client.writes:
            self.mode = "one"
        self._settle()

    def leave(self, client: TerminalClient) -> None:
        self.clients.remove(client)
        self._settle()

    def allow(self, client: TerminalClient, writes: bool) -> None:
        """Set the client's write access in the session."""
        if client.writes != writes:
            client.writes = writes
            self._settle()

    def take_over(self, client: TerminalClient) -> None:
        """Make this client the only writer."""
        self._must_write(client)
        self.mode, self.holder = "one", client
        self._settle()

    def share(self, client: TerminalClient) -> None:
        """Give all clients write access."""
        self._must_write(client)
        if self.mode == "one" and self.holder is not client:
            raise Denied("Only the current writer can share write access. Take over first.")
        self.mode = "many"
        self._settle()

    def may_write(self, client: TerminalClient) -> bool:
        return client.writes and (self.mode == "many" or self.holder is client)

    def check(self, client: TerminalClient) -> None:
        self._must_write(client)
        if not self.may_write(client):
            name = self.holder.name if self.holder else "another client"
            raise Denied(f'Only {name} types here now. Take over with {{"type":"take_over"}}.')

    def _must_write(self, client: TerminalClient) -> None:
        if not client.writes:
            raise Denied("You can watch this terminal but not type into it.")

    def _settle(self) -> None:
        able = [client for client in self.clients if client.writes]
        if self.mode == "many" or not able:
            self.holder = None
        elif self.holder not in able:
            self.holder = able[0]
        if not self.clients:
            self.mode = "many"
        for client in self.clients:
            client.changed()
