"""The agent's access to the terminals that people have opened in its session.

It reads a screen that is rendered from the terminal's buffer only when it is asked for, without secrets, as a
read-only viewer sees it. It types like a viewer, under its own name, a few bytes at a time: the first key of
a person stops it, and that key is never delayed.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from hutch.agent.tools.terminal_read_and_type import ScreenText, TerminalInfo, TypingResult
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.errors import Conflict, Denied
from hutch.domain.redaction import Redactor
from hutch.jail.shared_terminal import Terminal
from hutch.sessions.terminal_masking import KeyMask, first_masked
from hutch.sessions.terminal_text_for_agent import TerminalScreen
from hutch.system.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hutch.sessions.terminal_state_and_viewer import Held
    from hutch.sessions.terminals import Terminals

MAX_FED_BYTES = 256 * 1024  # of a terminal's output at once; older output is skipped
CHUNK_BYTES = 16  # typed at once
CHUNK_INTERVAL_S = 0.01  # between two chunks: viewers can follow, and take over
BLOCKED_TIMEOUT_S = 5.0  # for a program that reads no input
PERSON_HOLD_S = 10.0  # after a person's last key, the agent does not type
QUIET_S = 0.15  # without output, a program has probably finished its answer


@dataclass(slots=True)
class AgentTyping:
    """The typing in a terminal: whether the agent does it, and when a person last did."""

    agent_types: bool = False
    taken_over_by: str = ""  # while the agent types
    person_at: float = -PERSON_HOLD_S
    listeners: list[Callable[[], None]] = field(default_factory=list)  # called when the agent begins or ends

    def note_person(self, by: str) -> None:
        """Note a key of a person, before it is written."""
        self.person_at = time.monotonic()
        if self.agent_types and not self.taken_over_by:
            self.taken_over_by = by or "a user"

    def begin(self) -> None:
        self.agent_types, self.taken_over_by = True, ""
        self._notify()

    def end(self) -> None:
        self.agent_types = False
        self._notify()

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()


class RenderedScreen:
    """The screen of one terminal, up to the byte that was rendered last."""

    def __init__(self, terminal: Terminal, redactor: Redactor, key: KeyMask) -> None:
        self._terminal, self._redactor, self._key = terminal, redactor, key
        self._screen: TerminalScreen | None = None
        self._seq = 0  # of the next byte to render
        self._lock = asyncio.Lock()

    async def read(self, columns: int, rows: int, history: int) -> ScreenText:
        async with self._lock:
            end = self._terminal.seq
            start = max(first_masked(self._terminal, self._seq), end - MAX_FED_BYTES, 0)
            if self._screen is None or start > self._seq:  # what came before is not known
                self._screen, self._seq = TerminalScreen(columns, rows), start
            window = max(self._redactor.window, self._key.window)
            before = max(self._terminal.first_seq, self._seq - window)
            data = _bytes(self._terminal, before, end)
            await asyncio.to_thread(self._render, self._screen, data, before, (columns, rows))
            shown = self._screen.display(history)
            above = len(shown) - len(self._screen.display())
            line = above + self._screen.y + 1
            return ScreenText(shown, line, self._screen.x + 1, self._terminal.ended)

    def _render(self, screen: TerminalScreen, data: bytes, before: int, size: tuple[int, int]) -> None:
        """Render new output without secrets; what may be the beginning of one is left for the next time."""
        screen.resize(*size)
        offset = self._seq - before
        until = len(data)
        if not self._terminal.ended:
            until = min(self._redactor.held_start(data), len(data) - self._key.held_bytes(data))
        until = max(offset, until)
        screen.feed(self._redactor.mask(self._key.hide(data))[offset:until])
        self._seq = before + until


class AgentTerminals:
    """See `SharedTerminals`."""

    def __init__(self, terminals: "Terminals", redactor: Redactor) -> None:
        self._terminals, self._redactor = terminals, redactor
        self._screens: dict[str, RenderedScreen] = {}

    def list(self) -> "Sequence[TerminalInfo]":
        return [
            TerminalInfo(
                held.id, held.size.columns, held.size.rows, held.viewers, held.by, held.terminal.ended
            )
            for held in self._terminals.all()
        ]

    async def read(self, id: str, *, history: int) -> ScreenText:
        held = self._terminals.get(id)
        self._screens = {each.id: self._screen(each) for each in self._terminals.all()}
        return await self._screen(held).read(held.size.columns, held.size.rows, history)

    def _screen(self, held: "Held") -> RenderedScreen:
        found = self._screens.get(held.id)
        return found or self._screens.setdefault(
            held.id, RenderedScreen(held.terminal, self._redactor, KeyMask(held.key))
        )

    async def type(self, id: str, data: bytes) -> TypingResult:
        held = self._terminals.get(id)
        typing = held.typing
        if held.terminal.ended:
            raise Conflict(f"The program of terminal {id} has ended.")
        if held.input.is_hidden:
            raise _password_error(id)
        if typing.agent_types:
            raise Conflict(f"You are typing in terminal {id} already.")
        if time.monotonic() - typing.person_at < PERSON_HOLD_S:
            raise Conflict(
                f"A person is typing in terminal {id}. Wait until they have typed nothing for "
                f"{PERSON_HOLD_S:g} s, or ask them."
            )
        typing.begin()
        try:
            typed = await self._type(held, data)
            return TypingResult(typed, typing.taken_over_by)
        finally:
            typing.end()

    async def _type(self, held: "Held", data: bytes) -> int:
        """Type a chunk at a time; returns how many bytes were typed before a person pressed a key."""
        typed, blocked_since = 0, time.monotonic()
        while typed < len(data):
            if typed:
                await asyncio.sleep(CHUNK_INTERVAL_S)
            if held.typing.taken_over_by:
                break
            if held.input.is_hidden:
                raise _password_error(held.id)
            count = await self._terminals.type_as(held, data[typed : typed + CHUNK_BYTES], AGENT)
            typed += count
            if count:
                blocked_since = time.monotonic()
            elif time.monotonic() - blocked_since > BLOCKED_TIMEOUT_S:
                raise Conflict(
                    f"The program in terminal {held.id} reads no input: {typed} of {len(data)} bytes were "
                    "typed. Look with terminal_read; C-c may end it."
                )
            else:
                await asyncio.sleep(CHUNK_INTERVAL_S)
        return typed

    async def wait_quiet(self, id: str, timeout_s: float) -> None:
        """Poll, because any viewer of the terminal would slow its program down."""
        held, until = self._terminals.get(id), time.monotonic() + timeout_s
        seq, since = held.terminal.seq, time.monotonic()
        while (now := time.monotonic()) < until and not held.terminal.ended:
            if held.terminal.seq != seq:
                seq, since = held.terminal.seq, now
            elif seq and now - since >= QUIET_S:
                return
            await asyncio.sleep(CHUNK_INTERVAL_S)


def _password_error(id: str) -> Denied:
    return Denied(
        f"A program in terminal {id} reads a password, or another line that it does not show. Only a person "
        "may type that. Ask for it, and continue when it is done."
    )


def _bytes(terminal: Terminal, start: int, end: int) -> bytes:
    parts = []
    while start < end and (part := terminal.read(start)):
        parts.append(part[: end - start])
        start += len(parts[-1])
    return b"".join(parts)
