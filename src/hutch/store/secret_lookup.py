"""The secrets of an installation: from the sources that its settings name, or else from its vault."""

from collections.abc import Collection
from pathlib import Path

from hutch.store.optional_vault import open_vault, read_names, read_secrets
from hutch.store.secret_sources import SecretSources
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class InstallationSecrets:
    """The vault and the other sources. The methods block the thread."""

    vault: Path
    vault_keys: Path
    elsewhere: SecretSources

    def read(self, names: Collection[str] | None = None) -> dict[str, str]:
        """The secrets that are set, all or those of these names. A source that fails is an error."""
        return self._stored(names) | self.elsewhere.read(names)

    def read_available(self, names: Collection[str] | None = None) -> tuple[dict[str, str], dict[str, str]]:
        """The secrets that can be read, and the problems of the sources of others, by name."""
        found, problems = self.elsewhere.read_available(names)
        return self._stored(names) | found, problems

    def stored_names(self) -> list[str]:
        """The names of the secrets in the vault."""
        return read_names(self.vault, self.vault_keys)

    def set(self, name: str, value: str) -> None:
        """Store a secret in the vault; replaces an earlier one."""
        open_vault(self.vault, self.vault_keys).set(name, value)

    def delete(self, name: str) -> None:
        """Delete a secret of the vault."""
        open_vault(self.vault, self.vault_keys).delete(name)

    def _stored(self, names: Collection[str] | None) -> dict[str, str]:
        """The secrets in the vault that have no other source."""
        sources = self.elsewhere.sources
        wanted = self.stored_names() if names is None else names
        wanted = [name for name in wanted if name not in sources]
        return read_secrets(self.vault, self.vault_keys, wanted) if wanted else {}
