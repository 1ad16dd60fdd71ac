"""The shells of a jail, and the jails that `open_shell` shares by session id.

Callers that name the same session in the same process get the same jail and, under the
same name, the same shell. The last one to leave closes it.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict
from hutch.jail.jail_directory_and_namespaces import as_path
from hutch.jail.jail_startup import start_jail
from hutch.jail.policy import AGENT, Policy
from hutch.jail.running_jail import Jailed
from hutch.jail.shell.background_commands import Background
from hutch.jail.shell.command_results_and_events import Result
from hutch.jail.shell.shell import Admit, OnEvent, Shell

NAME = re.compile(r"[\w.:-]{1,128}")


async def _admit_immediately() -> None:
    """Admit every command immediately."""


class Shells:
    """The shells of one jail. The caller owns the jail."""

    def __init__(
        self,
        jail: Jailed,
        *,
        on_event: OnEvent | None = None,
        on_background_end: Callable[[str, Result], None] | None = None,
        start_in: str = "",
    ) -> None:
        self.jail = jail
        self.start_in = start_in  # a directory of the workspace, which must exist
        self.background = Background(max_bytes=jail.policy.limits.output_bytes, on_end=on_background_end)
        self.listeners: list[OnEvent] = [on_event] if on_event else []
        self.admit: Admit = _admit_immediately  # called after the listeners, before a command runs
        self._shells: dict[str, Shell] = {}

    def shell(self, name: str = "main", *, program: str | None = None) -> Shell:
        """The shell of that name, by default a /bin/sh; its process starts with its first command."""
        found = self._shells.get(name)
        if found is None:
            found = self._shells[name] = Shell(
                self.jail,
                name=name,
                program=program or "/bin/sh",
                start_in=self.start_in,
                background=self.background,
                listeners=self.listeners,
                admit=lambda: self.admit(),
            )
        elif program and found.program != program:
            raise Conflict(
                f"The shell '{name}' is {found.program}, not {program}. Use that program, or another name."
            )
        return found

    async def close(self) -> None:
        """Wait until listeners were notified about background commands. The jail must be closed before."""
        await self.background.close()
        for shell in self._shells.values():
            shell.end_watch()


class _Session:
    """A jail that several callers share."""

    def __init__(self, workspace: Path, policy: Policy, *, unsafe: bool) -> None:
        self.key = (workspace, policy, unsafe)
        self.users = 0
        self.lock = asyncio.Lock()
        self.shells: Shells | None = None

    async def open(self) -> Shells:
        async with self.lock:
            if self.shells is None:
                workspace, policy, unsafe = self.key
                self.shells = Shells(await start_jail(workspace, policy, unsafe_no_jail=unsafe))
            return self.shells

    async def close(self) -> None:
        async with self.lock:
            if self.shells is not None:
                shells, self.shells = self.shells, None
                await shells.jail.close()
                await shells.close()


_sessions: dict[tuple[asyncio.AbstractEventLoop, str], _Session] = {}


@asynccontextmanager
async def open_shell(
    session_id: str,
    *,
    workspace: str | os.PathLike[str] | None = None,
    shell: str | None = None,
    policy: Policy | None = None,
    name: str = "main",
    on_event: OnEvent | None = None,
    unsafe_no_jail: bool = False,
) -> AsyncIterator[Shell]:
    """A shell in a jail on `workspace`, or the current directory. Options that are omitted stay as they
    were opened."""
    if not NAME.fullmatch(session_id):
        raise BadRequest(f"'{session_id}' is not a valid session id. Use up to 128 letters, digits and _.:-")
    key = (asyncio.get_running_loop(), session_id)
    directory = await asyncio.to_thread(as_path(workspace or ".").resolve)
    session = _sessions.get(key)
    if session is None:
        session = _sessions[key] = _Session(directory, policy or AGENT, unsafe=unsafe_no_jail)
    elif session.key != (
        directory if workspace else session.key[0],
        policy or session.key[1],
        unsafe_no_jail,
    ):
        raise Conflict(
            f"Session '{session_id}' is open on '{session.key[0]}' with profile '{session.key[1].profile}'"
            f"{', unsafe' if session.key[2] else ''}. Use the same options, or another session id."
        )
    session.users += 1
    shells: Shells | None = None
    try:
        shells = await session.open()
        if on_event is not None:
            shells.listeners.append(on_event)
        yield shells.shell(name, program=shell)
    finally:
        if on_event is not None and shells is not None:
            shells.listeners.remove(on_event)
        session.users -= 1
        if session.users == 0:
            del _sessions[key]
            await asyncio.shield(asyncio.ensure_future(session.close()))
