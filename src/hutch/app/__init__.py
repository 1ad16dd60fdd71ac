"""The only wiring: settings in, living things out.

Commands and the gateway ask here for what they need; nobody else knows which
implementation stands behind a seam. One module for each room, so that a command
waits only for those it uses.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever only asks a server does not wait for the settings, which are models
    from hutch.settings import LoadedSettings


def configure_logs(
    loaded: "LoadedSettings", *, file: Path | None = None, file_only: bool = False, quiet: bool = False
) -> None:
    """Log as the settings say, with every stored secret kept out of the lines; also, or only, to a file.

    `quiet` is for commands that show what happens themselves: they log nothing below an error, unless the
    settings say otherwise.
    """
    from hutch import logs
    from hutch.store.vault_redactor import VaultRedactor

    told, redactor = loaded.settings.log, VaultRedactor(loaded.paths.vault, loaded.paths.vault_keys)
    level = "error" if quiet and told.level == "info" else told.level
    logs.configure(level, told.format, redactor=redactor, file=file, file_only=file_only)
