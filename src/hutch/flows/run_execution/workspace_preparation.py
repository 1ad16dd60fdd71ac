"""Prepares the workspace of a session: from its repository, from another session, or empty."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial

from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.flows.session_access import caller_of
from hutch.forge.forge_selection import Forges
from hutch.forge.git_progress import OnProgress, Progress
from hutch.forge.repo_url import RepoUrl
from hutch.sessions.host_dependencies import HostDependencies, Prepared
from hutch.sessions.interface import Delta
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.update_channel import Channels
from hutch.workspace.fork import fork
from hutch.workspace.preparation.workspace_record import Home, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """Prepares the workspaces of a host's sessions."""

    home: Home
    forges: Callable[[], Forges]
    # By the id of the workspace.
    clone: Callable[[str, RepoUrl, Session, OnProgress], Awaitable[Record]]
    make_empty: Callable[[str], Awaitable[Record]]
    # The sandbox of a session that is forked.
    open_source: Callable[[SessionId], AbstractAsyncContextManager[Sandbox]]
    # A sentence about each setting of the repository that is ignored.
    refused_settings: Callable[[Record], Sequence[str]]

    async def prepare(self, id: str, session: Session, dependencies: HostDependencies) -> Prepared:
        """Create the workspace of a session, unless a killed server has created it already."""
        record = await asyncio.to_thread(self._find, id) or await self._make(id, session, dependencies)
        warnings = (*record.notes, *self.refused_settings(record))
        return Prepared(record.id, record.source or "", record.commit or "", warnings)

    def _find(self, id: str) -> Record | None:
        try:
            return Record.read(self.home.workspace(id))
        except NotFound:
            return None

    async def _make(self, id: str, session: Session, dependencies: HostDependencies) -> Record:
        if session.forked_from:
            source, _, number = session.forked_from.partition("@")
            async with self.open_source(SessionId(source)) as sandbox:
                return await fork(sandbox.workspace, int(number), id)
        if not session.repository:
            return await self.make_empty(id)
        caller = await caller_of(dependencies, session)
        remote = await self.forges().resolve_url(dependencies.address_of(session), caller)
        return await self.clone(
            id, remote, session, partial(_send_progress, dependencies.channels, session.id)
        )


def _send_progress(channels: Channels, session_id: SessionId, progress: Progress) -> None:
    total = f"/{progress.total:,}" if progress.total else ""
    channels.publish(session_id, Delta("", 0, "progress", f"{progress.step} {progress.done:,}{total}"))
