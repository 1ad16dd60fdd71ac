"""Secrets with which webhooks are signed, in the vault: one for each endpoint, and the one before it."""

from pathlib import Path
from typing import TYPE_CHECKING

from hutch.store.optional_vault import open_vault, read_names, read_secrets

if TYPE_CHECKING:
    from hutch.store.vault import Vault


class WebhookSecrets:
    """The methods block: each reads or writes small files."""

    def __init__(self, vault: Path, keys: Path) -> None:
        self._paths = (vault, keys)

    def set(self, endpoint_id: str, secret: str) -> None:
        """Store the endpoint's secret. The one before is kept."""
        vault, (current, old) = self._open(), _names(endpoint_id)
        if before := read_secrets(*self._paths, {current}).get(current):
            vault.set(old, before)
        vault.set(current, secret)

    def read(self, endpoint_id: str) -> tuple[str, str]:
        """The secret, and the one before; empty if there is none."""
        current, old = _names(endpoint_id)
        found = read_secrets(*self._paths, {current, old})
        return found.get(current, ""), found.get(old, "")

    def delete(self, endpoint_id: str) -> None:
        stored = read_names(*self._paths)
        for name in _names(endpoint_id):
            if name in stored:
                self._open().delete(name)

    def _open(self) -> "Vault":
        return open_vault(*self._paths)


def _names(endpoint_id: str) -> tuple[str, str]:
    return f"webhook_{endpoint_id}", f"webhook_{endpoint_id}_old"
