"""Secrets that a session's jail gets by name, from the vault.

They have names of their own (`jail_NAME`), so that no session can ask for a model key or a
token of Hutch itself. A user has own ones; those of the installation are for its owners.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.domain.hutch_secret_names import jail_secret
from hutch.store.optional_vault import read_names, read_secrets
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class JailSecrets:
    """The secrets for jails. The methods block: each reads small files."""

    vault: Path
    keys: Path

    def check(self, names: Sequence[str], user_id: str, *, is_owner: bool) -> None:
        """Refuse a name for which this user has no secret."""
        if names:
            stored = read_names(self.vault, self.keys)
            for name in names:
                self._place(name, user_id, stored, is_owner=is_owner)

    def read(self, names: Sequence[str], user_id: str, *, is_owner: bool) -> tuple[tuple[str, str], ...]:
        """The secrets by the names of their variables."""
        if not names:
            return ()
        stored = read_names(self.vault, self.keys)
        places = {name: self._place(name, user_id, stored, is_owner=is_owner) for name in names}
        found = read_secrets(self.vault, self.keys, set(places.values()))
        return tuple((name, found[place]) for name, place in places.items())

    def _place(self, name: str, user_id: str, stored: Collection[str], *, is_owner: bool) -> str:
        own, shared = jail_secret(name, user_id), jail_secret(name)
        if own in stored:
            return own
        if is_owner and shared in stored:
            return shared
        raise NotFound(
            f"There is no secret {name} for jails. Store one of your own in the web app, in Settings, or an "
            f"owner can store it: hutch config set-secret {shared if is_owner else own}"
        )
