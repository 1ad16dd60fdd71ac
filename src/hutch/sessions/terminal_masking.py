"""What somebody sees of a terminal who may only read: its bytes, with a `*` for each byte of a secret.

A byte keeps its number, so whoever comes back goes on at the same place. What may be the
beginning of a secret is held back until more was printed.
"""

import asyncio

from hutch.domain.redaction import Redactor
from hutch.jail.terminal import Terminal, TerminalReader

UNKNOWN_BYTES = 16 * 1024  # at the beginning of a ring that has lost bytes: the rest of a secret may be there
AT_ONCE_BYTES = 4 * 1024  # so many are looked at without leaving the loop


def first_masked(terminal: Terminal, resume: int | None) -> int:
    """The first byte that can be shown to somebody who may only read."""
    first = terminal.first_seq
    known = min(first + UNKNOWN_BYTES, terminal.seq) if first else 0
    return max(known, resume or 0)


class MaskedReader:
    """The bytes of a terminal; without secrets while `masked`."""

    def __init__(self, terminal: Terminal, reader: TerminalReader, redactor: Redactor) -> None:
        self.masked = True
        self._terminal, self._reader, self._redactor = terminal, reader, redactor
        self._seq = reader.seq  # of the first byte that was not shown
        self._held = b""

    def __aiter__(self) -> "MaskedReader":
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        while True:
            if self._held and not self.masked:
                return self._show(self._held)
            try:
                _, data = await anext(self._reader)
            except StopAsyncIteration:
                if not self._held:
                    raise
                return self._show((await self._hide())[0])
            self._held += data
            if not self.masked:
                continue
            shown, count = await self._hide()
            if count:
                return self._show(shown[:count])

    def _show(self, data: bytes) -> tuple[int, bytes]:
        seq, self._seq = self._seq, self._seq + len(data)
        self._held = self._held[len(data) :]
        return seq, data

    async def _hide(self) -> tuple[bytes, int]:
        """What is held, masked, and how much of it can be shown by now."""
        before = self._before()
        data = before + self._held
        if len(data) <= AT_ONCE_BYTES:
            masked, until = _hide(self._redactor, data)
        else:
            masked, until = await asyncio.to_thread(_hide, self._redactor, data)
        return masked[len(before) :], max(0, until - len(before))

    def _before(self) -> bytes:
        """What was printed just before, in which a secret may have begun."""
        at = max(self._terminal.first_seq, self._seq - self._redactor.window)
        parts = []
        while at < self._seq:
            part = self._terminal.read(at)[: self._seq - at]
            if not part:
                break
            parts.append(part)
            at += len(part)
        return b"".join(parts)


def _hide(redactor: Redactor, data: bytes) -> tuple[bytes, int]:
    return redactor.mask(data), redactor.held_start(data)
