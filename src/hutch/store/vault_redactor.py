"""A redactor that learns of secrets which are set while it is at work.

A server runs for months, and `hutch config set-secret` beside it. Whenever a text is
cleaned, the vault's file is looked at, at most twenty times a second, and read again
when it is another. What was a secret once stays one.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from hutch.domain.errors import HutchError
from hutch.domain.redaction import Redactor
from hutch.store.secrets import read_secrets

POLL_INTERVAL_S = 0.05


class VaultRedactor(Redactor):
    """Knows some values, and those of the vault as it is by now."""

    def __init__(self, vault: Path, keys: Path, values: Iterable[str] = ()) -> None:
        self._vault, self._keys = vault, keys
        self._looked = time.monotonic()
        self._mark = _mark(vault)
        self._known = _stripped([*values, *self._secrets()])
        super().__init__(self._known)

    def redact(self, text: str) -> str:
        self._look()
        return super().redact(text)

    def mask(self, data: bytes) -> bytes:
        self._look()
        return super().mask(data)

    def redact_after(self, text: str, place: int) -> str:
        self._look()
        return super().redact_after(text, place)

    def partial_secret_start(self, text: str) -> int:
        self._look()
        return super().partial_secret_start(text)

    def add_values(self, values: Iterable[str]) -> None:
        self._known |= _stripped(values)
        self.set_values(self._known)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < POLL_INTERVAL_S:
            return
        self._looked = now
        mark = _mark(self._vault)
        if mark == self._mark:
            return
        try:
            found = _stripped(self._secrets())
        except HutchError:  # who uses a secret is told what is wrong; what is known stays hidden meanwhile
            return
        self._mark = mark
        if not found <= self._known:
            self._known |= found
            self.set_values(self._known)

    def _secrets(self) -> Iterable[str]:
        return read_secrets(self._vault, self._keys).values()


def _stripped(values: Iterable[str]) -> set[str]:
    """Without the line's end that many a file has: what is left is in the whole, too."""
    return {value.strip() for value in values if value.strip()}


def _mark(path: Path) -> object:
    """What changes when the file does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
