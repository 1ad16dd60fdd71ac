"""Masks a terminal for read-only viewers: each byte of a secret is shown as `*`.

Every byte keeps its number, so a viewer that reconnects continues at the same position. Bytes
that may be the beginning of a secret are held until more output arrives.
"""

import asyncio

from hutch.domain.redaction import Redactor
from hutch.jail.terminal import Terminal, TerminalReader

# When the ring buffer has dropped its oldest bytes, the others may start with the rest of a secret. So this
# many bytes are not shown.
UNKNOWN_BYTES = 16 * 1024
INLINE_REDACTION_BYTES = 4 * 1024  # are masked in the event loop; more in a thread


def first_masked(terminal: Terminal, resume: int | None) -> int:
    """The first byte that a read-only viewer may see."""
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
        """The held bytes, masked, and how many of them can be shown now."""
        before = self._before()
        data = before + self._held
        if len(data) <= INLINE_REDACTION_BYTES:
            masked, until = _hide(self._redactor, data)
        else:
            masked, until = await asyncio.to_thread(_hide, self._redactor, data)
        return masked[len(before) :], max(0, until - len(before))

    def _before(self) -> bytes:
        """The output just before the held bytes, in which a secret may begin."""
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
