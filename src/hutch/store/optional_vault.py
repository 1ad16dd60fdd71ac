"""Reads the secrets of an installation that may have no vault."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hutch.store.vault import Vault


def read_secrets(vault: Path, keys: Path, names: Collection[str] | None = None) -> dict[str, str]:
    """The secrets of the vault, all or those of these names; empty without a vault. Blocks the thread."""
    if not vault.exists():
        return {}
    opened = open_vault(vault, keys)
    return {name: opened.get(name) or "" for name in opened.names() if names is None or name in names}


def open_vault(vault: Path, keys: Path) -> "Vault":
    """The vault, which may have no secret yet."""
    from hutch.store.vault import (
        Vault,  # imported late: loading ciphers is slow
    )

    return Vault(vault, keys)


def read_names(vault: Path, keys: Path) -> list[str]:
    """The names of the secrets in the vault; empty without a vault."""
    return open_vault(vault, keys).names() if vault.exists() else []
