"""The hooks of a run: those of the owner, and those of a repository that a user has trusted."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from hutch.agent.hooks.hook_file import HookFile, find_repository_hooks, parse_hooks
from hutch.agent.hooks.hook_runner import Hooks
from hutch.agent.hooks.trusted_hooks import TrustedHooks
from hutch.domain.errors import HutchError
from hutch.domain.session import Session
from hutch.flows.run_execution.run_setup_builder import original_reader
from hutch.sessions.live_session import LiveSession
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line

NOT_TRUSTED = (
    "The hooks of the repository ({path}) are not run, because nobody has trusted them: {commands}. "
    "Trust them with `hutch hooks trust {repository}`."
)
ANYONE = ""  # the owner of this machine trusts for all
MAX_COMMANDS_CHARS = 300


@dataclass(frozen=True, slots=True)
class HookSources:
    """Where hooks come from; `app/` builds it."""

    own: Path  # the owner's file, which need not exist
    trusted: TrustedHooks

    async def for_run(self, live: LiveSession, session: Session) -> tuple[Hooks | None, tuple[str, ...]]:
        """The hooks of a run, and a sentence about each file that is not used."""
        problems: list[str] = []
        files: list[HookFile] = []
        try:
            files += await asyncio.to_thread(self.own_hooks)
            source = live.sandbox.workspace.record.source
            found = await find_repository_hooks(original_reader(live))
            if found is not None and await asyncio.to_thread(self.is_trusted, session.owner, source, found):
                files.append(found)
            elif found is not None:
                problems.append(not_trusted(found, source))
        except HutchError as error:
            problems.append(str(error))
        return (Hooks(tuple(files), live.id) if files else None), tuple(problems)

    def own_hooks(self) -> Sequence[HookFile]:
        """The hooks of the owner. Blocks the thread."""
        try:
            hooks = parse_hooks(str(self.own), self.own.read_bytes())
        except FileNotFoundError:
            return ()
        return [HookFile(str(self.own), hooks)] if hooks else ()

    def is_trusted(self, owner: str, repository: str, file: HookFile) -> bool:
        """True if this user, or the owner of this machine, has trusted them. Blocks the thread."""
        return any(self.trusted.is_trusted(by, repository, file) for by in (ANYONE, owner))


def not_trusted(file: HookFile, repository: str) -> str:
    """The sentence about hooks that are not run."""
    commands = one_line("; ".join(each.command for each in file.hooks), MAX_COMMANDS_CHARS)
    return NOT_TRUSTED.format(path=file.path, commands=commands, repository=one_line(repository, 200))
