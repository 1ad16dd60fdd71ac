"""The wiring: builds the objects of an installation from its settings.

Only this package knows which implementation is behind an interface. There is one module per subject,
so a command imports only what it uses.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # commands that only use a server need not load the settings and pydantic
    from hutch.settings import LoadedSettings


def configure_logs(
    loaded: "LoadedSettings", *, file: Path | None = None, file_only: bool = False, quiet: bool = False
) -> None:
    """Configure logging from the settings, with stored secrets redacted; also, or only, to a file.

    `quiet` is for commands that show progress themselves: they log only errors, unless the settings set
    another level.
    """
    from hutch import logs
    from hutch.store.vault_redactor import VaultRedactor

    settings, redactor = loaded.settings.log, VaultRedactor(loaded.paths.vault, loaded.paths.vault_keys)
    level = "error" if quiet and settings.level == "info" else settings.level
    logs.configure(level, settings.format, redactor=redactor, file=file, file_only=file_only)
