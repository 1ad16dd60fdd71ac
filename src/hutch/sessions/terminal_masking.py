"""Masks a terminal for its viewers: each byte of a secret is shown as `*`.

For read-only viewers these are all secrets; for everyone it is the key of the shell's marks.

Every byte keeps its number, so a viewer that reconnects continues at the same position. Bytes
that may be the beginning of a secret are held until more output arrives.
"""

import asyncio

from hutch.domain.redaction import Redactor
from hutch.jail.shared_terminal import Terminal, TerminalReader

# When the ring buffer has dropped its oldest bytes, the others may start with the rest of a secret. So this
# many bytes are not shown.
UNKNOWN_BYTES = 16 * 1024
INLINE_REDACTION_BYTES = 4 * 1024  # are masked in the event loop; more in a thread


MIN_KEY_BYTES = 4  # of the beginning of a key, which are held until more output arrives


class KeyMask:
    """Hides the key of a shell's marks: a program that knows it could report commands in the name of others.

    A shell may print it anywhere, for example after `set -x`.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._hidden = b"*" * len(key)
        self._before = self._held = b""  # the last output that was shown, and what was not yet

    @property
    def window(self) -> int:
        """How many bytes before some output decide whether a key ends in it."""
        return max(0, len(self._key) - 1)

    def hide(self, data: bytes, *, is_cut: bool = False) -> bytes:
        """The output with each key hidden; if it `is_cut`, its start may be the rest of a key."""
        if not self._key:
            return data
        if is_cut:
            ends = (self._key[at:] for at in range(1, len(self._key)))
            rest = next((end for end in ends if data.startswith(end)), b"")
            data = b"*" * len(rest) + data[len(rest) :]
        return data.replace(self._key, self._hidden)

    def held_bytes(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a key."""
        for count in range(min(self.window, len(data)), MIN_KEY_BYTES - 1, -1):
            if data.endswith(self._key[:count]):
                return count
        return 0

    def feed(self, data: bytes) -> bytes:
        """The next output that can be shown, of a stream that is read from its start."""
        before, data = self._before, self._held + data
        count = max(0, len(data) - self.held_bytes(before + data))
        shown = self.hide(before + data)[len(before) :][:count]
        self._before, self._held = (before + data[:count])[-self.window :], data[count:]
        return shown

    def end(self) -> bytes:
        """The output that was held, when there is no more."""
        shown = self.hide(self._before + self._held)[len(self._before) :]
        self._held = b""
        return shown


def first_masked(terminal: Terminal, resume: int | None) -> int:
    """The first byte that a read-only viewer may see."""
    first = terminal.first_seq
    known = min(first + UNKNOWN_BYTES, terminal.seq) if first else 0
    return max(known, resume or 0)


class MaskedReader:
    """The bytes of a terminal; without secrets while `masked`, and always without the key."""

    def __init__(self, terminal: Terminal, reader: TerminalReader, redactor: Redactor, key: KeyMask) -> None:
        self.masked = True
        self._key = key
        self._terminal, self._reader, self._redactor = terminal, reader, redactor
        self._seq = reader.seq  # of the first byte that was not shown
        self._held = b""

    def __aiter__(self) -> "MaskedReader":
        return self

    async def __anext__(self) -> tuple[int, bytes]:
        while True:
            if self._held and not self.masked:
                shown, count = self._hide_key()
                if count:
                    return self._show(shown[:count])
            try:
                _, data = await anext(self._reader)
            except StopAsyncIteration:
                if not self._held:
                    raise
                return self._show((await self._hide() if self.masked else self._hide_key())[0])
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
        before = self._before(max(self._redactor.window, self._key.window))
        held = self._key.held_bytes(before + self._held)
        data = self._key.hide(before + self._held, is_cut=self._is_cut(before))
        if len(data) <= INLINE_REDACTION_BYTES:
            masked, until = _hide(self._redactor, data)
        else:
            masked, until = await asyncio.to_thread(_hide, self._redactor, data)
        return masked[len(before) :], max(0, min(until, len(data) - held) - len(before))

    def _hide_key(self) -> tuple[bytes, int]:
        """The held bytes without the key, and how many of them can be shown now."""
        before = self._before(self._key.window)
        data = before + self._held
        shown = self._key.hide(data, is_cut=self._is_cut(before))[len(before) :]
        return shown, max(0, len(self._held) - self._key.held_bytes(data))

    def _is_cut(self, before: bytes) -> bool:
        """True if bytes before these were dropped, in which a key may begin."""
        return len(before) < min(self._key.window, self._seq)

    def _before(self, count: int) -> bytes:
        """The output just before the held bytes, in which a secret may begin."""
        at = max(self._terminal.first_seq, self._seq - count)
        parts = []
        while at < self._seq:
            part = self._terminal.read(at, self._seq - at)
            if not part:
                break
            parts.append(part)
            at += len(part)
        return b"".join(parts)


def _hide(redactor: Redactor, data: bytes) -> tuple[bytes, int]:
    return redactor.mask(data), redactor.held_start(data, is_edited=True)
