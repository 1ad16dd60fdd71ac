"""The hooks of repositories that users have trusted, by content: changed ones are shown again."""

import hashlib
import json
from pathlib import Path

from hutch.agent.hooks.hook_file import HookFile
from hutch.system.atomic_file import write_private
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TrustedHooks:
    """The trusted hooks below a directory. All methods block the thread."""

    directory: Path

    def trust(self, owner: str, repository: str, file: HookFile) -> None:
        commands = [each.command for each in file.hooks]
        about = {"owner": owner, "repository": repository, "commands": commands, "trusted_ms": wall_ms()}
        write_private(self._path(owner, repository, file), json.dumps(about, indent=1) + "\n")

    def is_trusted(self, owner: str, repository: str, file: HookFile) -> bool:
        return self._path(owner, repository, file).exists()

    def withdraw(self, owner: str, repository: str, file: HookFile) -> bool:
        """Trust them no longer; False if they were not trusted."""
        path = self._path(owner, repository, file)
        was_trusted = path.exists()
        path.unlink(missing_ok=True)
        return was_trusted

    def _path(self, owner: str, repository: str, file: HookFile) -> Path:
        text = json.dumps([owner, repository, file.path, file.digest])
        return self.directory / f"{hashlib.sha256(text.encode()).hexdigest()}.json"
