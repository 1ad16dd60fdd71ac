"""Who may type into a terminal: all who may work in the session, or one of them at a time.

Where one writes, it is who came first; others may take over, and everybody is told.
When the one leaves, the next in the order of coming has it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from hutch.domain.errors import Denied

Mode = Literal["one", "many"]


@dataclass(eq=False, slots=True)
class TerminalClient:
    """One who is at a terminal."""

    name: str
    writes: bool  # as far as the session is concerned
    changed: Callable[[], None]  # is called when somebody else may write than before


@dataclass(slots=True)
class TerminalWriters:
    """Those who are at one terminal."""

    mode: Mode = "many"
    clients: list[TerminalClient] = field(default_factory=list)  # in the order of their coming
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
        """What somebody may do in the session has changed."""
        if client.writes != writes:
            client.writes = writes
            self._settle()

    def take(self, client: TerminalClient) -> None:
        """Be the one who writes."""
        self._must_write(client)
        self.mode, self.holder = "one", client
        self._settle()

    def share(self, client: TerminalClient) -> None:
        """Let all write."""
        self._must_write(client)
        if self.mode == "one" and self.holder is not client:
            raise Denied("Only who writes can let the others write too. Take it over first.")
        self.mode = "many"
        self._settle()

    def may_write(self, client: TerminalClient) -> bool:
        return client.writes and (self.mode == "many" or self.holder is client)

    def check(self, client: TerminalClient) -> None:
        self._must_write(client)
        if not self.may_write(client):
            name = self.holder.name if self.holder else "somebody else"
            raise Denied(f'Only {name} types here now. Take over with {{"type":"take"}}.')

    def _must_write(self, client: TerminalClient) -> None:
        if not client.writes:
            raise Denied("You may watch this terminal, and not type into it.")

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
