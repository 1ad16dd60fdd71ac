"""Opens users' directories for sessions in which an agent works on the directory itself.

Several sessions may work in one directory. Each keeps its snapshots under a number, which its log has as the
name of its workspace, so that a later process continues them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Self

from hutch.domain.errors import Conflict
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.flows.in_place_sessions_without_agent import workspace_name, workspace_number
from hutch.sessions.host_dependencies_and_callbacks import Prepared
from hutch.sessions.sandbox_opening import SandboxOpener
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.in_place_workspace import place_number
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class InPlaceDirectories:
    """The directories in which sessions of this process work.

    A session keeps its number while this process runs, also without a jail: otherwise the next session would
    get the same one, and only one of them could be open.
    """

    workspaces: Workspaces
    check: Callable[[Path], None]  # raises if this directory must not be worked in; blocks the thread
    clean: Callable[[str], str]  # removes secrets
    _prepared: dict[SessionId, tuple[Workspace, AsyncExitStack]] = field(default_factory=dict)  # not open yet
    _numbers: dict[tuple[Path, int], SessionId] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._prepared:
            await self._prepared.popitem()[1][1].aclose()

    async def prepare(self, session: Session) -> Prepared:
        """Hold a number that no other session or process uses, until the sandbox opens."""
        directory = Path(session.repository)
        if session.id not in self._prepared:
            async with AsyncExitStack() as opening:
                taken = {number for place, number in self._numbers if place == directory}
                workspace = await opening.enter_async_context(
                    self.workspaces.open_directory(
                        directory, clean=self.clean, beside_others=True, excluding=taken
                    )
                )
                self._numbers[directory, place_number(workspace.record)] = session.id
                self._prepared[session.id] = workspace, opening.pop_all()
        workspace, _ = self._prepared[session.id]
        return Prepared(workspace_name(place_number(workspace.record)), session.repository)

    async def opener(self, session: Session, otherwise: SandboxOpener) -> SandboxOpener:
        """Opens the sandbox of a session: on its directory, or else on its copy."""
        if not session.delivery.in_place:
            return otherwise
        await asyncio.to_thread(self.check, Path(session.repository))  # it may be another one since
        return replace(otherwise, open_workspace=lambda id: self._open(session, id))

    @asynccontextmanager
    async def _open(self, session: Session, id: str) -> AsyncIterator[Workspace]:
        """The directory of a prepared session."""
        directory, number = Path(session.repository), workspace_number(id)
        async with AsyncExitStack() as opened:
            if session.id in self._prepared:
                workspace, stack = self._prepared.pop(session.id)
                opened.push_async_callback(stack.aclose)
            else:
                opening = self.workspaces.open_directory(directory, clean=self.clean, number=number)
                try:
                    workspace = await opened.enter_async_context(opening)
                except Conflict:
                    raise Conflict(self._reason(session, directory, number)) from None
                self._numbers[directory, number] = session.id
            yield workspace

    def _reason(self, session: Session, directory: Path, number: int) -> str:
        other = self._numbers.get((directory, number), session.id)
        if other != session.id:
            return (
                f"The session {session.id} cannot continue while {other} is open: their snapshots are stored "
                f"in one place. Close Hutch in this editor, and load {session.id} first."
            )
        return f"The session {session.id} is open in another process. Continue it there, or end that."
