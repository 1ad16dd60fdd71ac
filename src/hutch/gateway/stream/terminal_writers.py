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
class Seat:
    """One who is at a terminal."""

    name: str
    writes: bool  # as far as the session is concerned
    changed: Callable[[], None]  # is called when somebody else may write than before


@dataclass(slots=True)
class Writers:
    """Those who are at one terminal."""

    mode: Mode = "many"
    seats: list[Seat] = field(default_factory=list)  # in the order of their coming
    holder: Seat | None = None

    def join(self, seat: Seat, mode: Mode) -> None:
        self.seats.append(seat)
        if mode == "one" and seat.writes:
            self.mode = "one"
        self._settle()

    def leave(self, seat: Seat) -> None:
        self.seats.remove(seat)
        self._settle()

    def allow(self, seat: Seat, writes: bool) -> None:
        """What somebody may do in the session has changed."""
        if seat.writes != writes:
            seat.writes = writes
            self._settle()

    def take(self, seat: Seat) -> None:
        """Be the one who writes."""
        self._must_write(seat)
        self.mode, self.holder = "one", seat
        self._settle()

    def share(self, seat: Seat) -> None:
        """Let all write."""
        self._must_write(seat)
        if self.mode == "one" and self.holder is not seat:
            raise Denied("Only who writes can let the others write too. Take it over first.")
        self.mode = "many"
        self._settle()

    def may_write(self, seat: Seat) -> bool:
        return seat.writes and (self.mode == "many" or self.holder is seat)

    def check(self, seat: Seat) -> None:
        self._must_write(seat)
        if not self.may_write(seat):
            name = self.holder.name if self.holder else "somebody else"
            raise Denied(f'Only {name} types here now. Take over with {{"type":"take"}}.')

    def _must_write(self, seat: Seat) -> None:
        if not seat.writes:
            raise Denied("You may watch this terminal, and not type into it.")

    def _settle(self) -> None:
        able = [seat for seat in self.seats if seat.writes]
        if self.mode == "many" or not able:
            self.holder = None
        elif self.holder not in able:
            self.holder = able[0]
        if not self.seats:
            self.mode = "many"
        for seat in self.seats:
            seat.changed()
