"""Reads the secrets of an installation that may have no vault."""

from collections.abc import Collection
from pathlib import Path


def read_secrets(vault: Path, keys: Path, names: Collection[str] | None = None) -> dict[str, str]:
    """The secrets of the vault, all or those of these names; empty without a vault. Blocks the thread."""
    if not vault.exists():
        return {}
    from hutch.store.vault import (
        Vault,  # imported late: loading ciphers is slow
    )

    opened = Vault(vault, keys)
    return {name: opened.get(name) or "" for name in opened.names() if names is None or name in names}
