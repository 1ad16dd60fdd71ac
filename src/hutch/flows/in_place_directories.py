"""Opens users' directories for sessions in which an agent works on the directory itself.

Several sessions may work in one directory. Each keeps its snapshots under a number, which its log has as the
name of its workspace, so that a later process continues them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import Conflict
from hutch.domain.session import Session
from hutch.flows.in_place_sessions import workspace_name, workspace_number
from hutch.sessions.host_dependencies_and_callbacks import Prepared
from hutch.sessions.sandbox_opening import SandboxOpener
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.in_place_workspace import place_number
from hutch.workspace.workspace import Workspace
from hutch.workspace.workspaces import Workspaces


@dataclass(frozen=True, slots=True)
class InPlaceDirectories:
    """The directories in which sessions of this process work."""

    workspaces: Workspaces
    check: Callable[[Path], None]  # raises if this directory must not be worked in; blocks the thread
    clean: Callable[[str], str]  # removes secrets

    async def prepare(self, session: Session) -> Prepared:
        """Choose a number that no other process uses now."""
        directory = Path(session.repository)
        opening = self.workspaces.open_directory(directory, clean=self.clean, beside_others=True)
        async with opening as workspace:
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
        number = workspace_number(id)
        opening = self.workspaces.open_directory(Path(session.repository), clean=self.clean, number=number)
        try:
            workspace = await opening.__aenter__()
        except Conflict:
            raise Conflict(
                f"The session {session.id} is open in another process. Continue it there, or end that."
            ) from None
        try:
            yield workspace
        finally:
            await opening.__aexit__(None, None, None)
