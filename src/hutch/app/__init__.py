"""The only wiring: settings in, living things out.

Commands and the gateway ask here for what they need; nobody else knows which
implementation stands behind a seam. One module for each room, so that a command
waits only for those it uses.
"""

from pathlib import Path

from hutch import logs
from hutch.domain.redaction import Redactor
from hutch.settings import Loaded


def configure_logs(loaded: Loaded, *, file: Path | None = None, file_only: bool = False) -> None:
    """Log as the settings say, with every stored secret kept out of the lines; also, or only, to a file."""
    secrets: list[str] = []
    if loaded.paths.vault.exists():
        from hutch.store.vault import Vault

        vault = Vault(loaded.paths.vault, loaded.paths.vault_keys)
        secrets = [vault.get(name) or "" for name in vault.names()]
    told = loaded.settings.log
    logs.configure(told.level, told.format, redactor=Redactor(secrets), file=file, file_only=file_only)
