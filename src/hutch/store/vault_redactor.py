"""A redactor that loads secrets which are set while it runs.

A server runs for months, and users run `hutch config set-secret` meanwhile. When a text
is redacted, the vault's file is checked, at most twenty times a second, and read again if
it has changed. Values from other sources (`secret_sources.py`) are redacted as soon as they
are read. A value that was a secret once is always redacted.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from hutch.domain.errors import HutchError
from hutch.domain.redaction import Redactor
from hutch.store.optional_vault import read_secrets
from hutch.store.secret_sources import seen_values

POLL_INTERVAL_S = 0.05


class VaultRedactor(Redactor):
    """Redacts the given values and the current secrets of the vault."""

    def __init__(self, vault: Path, keys: Path, values: Iterable[str] = ()) -> None:
        self._vault, self._keys = vault, keys
        self._checked_at = time.monotonic()
        self._mark = _mark(vault)
        self._seen = len(seen_values())
        self._known = _stripped([*values, *seen_values(), *self._secrets()])
        super().__init__(self._known)

    def redact(self, text: str) -> str:
        self._refresh()
        return super().redact(text)

    def find_secrets(self, text: str) -> set[tuple[str, str]]:
        self._refresh()
        return super().find_secrets(text)

    def mask(self, data: bytes) -> bytes:
        self._refresh()
        return super().mask(data)

    def redact_after(self, text: str, place: int) -> str:
        self._refresh()
        return super().redact_after(text, place)

    def partial_secret_start(self, text: str, *, is_edited: bool = False) -> int:
        self._refresh()
        return super().partial_secret_start(text, is_edited=is_edited)

    def add_values(self, values: Iterable[str]) -> None:
        self._known |= _stripped(values)
        self.set_values(self._known)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < POLL_INTERVAL_S:
            return
        self._checked_at = now
        if len(seen_values()) != self._seen:
            self._seen = len(seen_values())
            self.add_values(seen_values())
        mark = _mark(self._vault)
        if mark == self._mark:
            return
        try:
            found = _stripped(self._secrets())
        except HutchError:  # the use of a secret raises this error; known values stay redacted
            return
        self._mark = mark
        if not found <= self._known:
            self._known |= found
            self.set_values(self._known)

    def _secrets(self) -> Iterable[str]:
        return read_secrets(self._vault, self._keys).values()


def _stripped(values: Iterable[str]) -> set[str]:
    """The values without surrounding whitespace, such as the newline at the end of a file."""
    return {value.strip() for value in values if value.strip()}


def _mark(path: Path) -> object:
    """A value that changes when the file changes."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
