"""The secrets of an installation, for those who may have none."""

from collections.abc import Collection
from pathlib import Path


def read_secrets(vault: Path, keys: Path, names: Collection[str] | None = None) -> dict[str, str]:
    """The secrets of the vault, all or those of these names; empty where there is no vault. Blocks."""
    if not vault.exists():
        return {}
    from hutch.store.vault import (
        Vault,  # ciphers take a while, and an installation without a vault needs none
    )

    opened = Vault(vault, keys)
    return {name: opened.get(name) or "" for name in opened.names() if names is None or name in names}
