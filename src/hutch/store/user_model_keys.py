"""Model keys of single users, in the vault. They can be set, listed by provider and used, never read out."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hutch.store.optional_vault import open_vault, read_secrets

if TYPE_CHECKING:
    from hutch.store.vault import Vault


class UserModelKeys:
    """The keys of users. The methods block: each reads or writes small files."""

    def __init__(self, vault: Path, keys: Path, names: Mapping[str, str]) -> None:
        self._vault, self._keys = vault, keys
        self._names = names  # of the secrets, by provider

    def set(self, user_id: str, provider: str, value: str) -> None:
        self._open().set(_secret(self._names[provider], user_id), value.strip())

    def delete(self, user_id: str, provider: str) -> None:
        self._open().delete(_secret(self._names[provider], user_id))

    def providers(self, user_id: str) -> list[str]:
        """The providers for which a user has a key."""
        stored = self._stored_names()
        return [provider for provider, name in self._names.items() if _secret(name, user_id) in stored]

    def read(self, user_id: str) -> dict[str, str]:
        """The keys of a user, by the names that the keys of the installation have."""
        wanted = {_secret(name, user_id): name for name in self._names.values()}
        found = read_secrets(self._vault, self._keys, wanted)
        return {wanted[name]: value for name, value in found.items() if value}

    def delete_all(self, user_id: str) -> int:
        """Delete every secret of a user; returns how many there were."""
        names = [name for name in self._stored_names() if name.endswith(f"_{user_id}")]
        for name in names:
            self._open().delete(name)
        return len(names)

    def _stored_names(self) -> Collection[str]:
        return self._open().names() if self._vault.exists() else ()

    def _open(self) -> "Vault":
        return open_vault(self._vault, self._keys)


def _secret(name: str, user_id: str) -> str:
    return f"{name}_{user_id}"
