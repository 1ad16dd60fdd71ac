"""Prepares the workspace of a session: from its repository, its starter files, another session, or empty."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId
from hutch.domain.session import Session
from hutch.domain.user_given_starter_files import NO_FILES, StarterFiles
from hutch.flows.repository_dependencies import Append, Environments
from hutch.flows.session_permissions import caller_of
from hutch.forge.forge_and_credential_selection import Forges
from hutch.forge.git_progress import OnProgress, Progress
from hutch.forge.repo_url import RepoUrl
from hutch.sessions.host_dependencies_and_callbacks import HostDependencies, Prepared
from hutch.sessions.interface import Delta
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.session_update_fan_out import Channels
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.pending_starter_files import StagedFiles
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from hutch.workspace.workspace_fork import fork


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparer:
    """Prepares the workspaces of a host's sessions."""

    home: Home
    forges: Callable[[], Forges]
    # By the id of the workspace.
    clone: Callable[[str, RepoUrl, Session, OnProgress], Awaitable[Record]]
    write: Callable[[str, StarterFiles], Awaitable[Record]]
    staged: StagedFiles
    # The sandbox of a session that is forked.
    open_source: Callable[[SessionId], AbstractAsyncContextManager[Sandbox]]
    # A sentence about each setting of the repository that is ignored.
    refused_settings: Callable[[Record], Sequence[str]]
    environments: Environments

    async def prepare(
        self, id: str, session: Session, dependencies: HostDependencies, append: Append
    ) -> Prepared:
        """Create the workspace of a session, unless a killed server has created it already, and provide its
        dependencies. `append` writes events to the session's log."""
        record = await asyncio.to_thread(self._find, id) or await self._make(id, session, dependencies)
        warnings = (*record.notes, *self.refused_settings(record))
        if session.repository and not session.delivery.in_place:
            show = partial(_send_line, dependencies.channels, session.id)
            provided = await self.environments.provide(session.owner, record, append, show)
            warnings += provided.warnings
        given = session.delivery.starter_files
        if given:
            await asyncio.to_thread(self.staged.remove, session.id)
        return Prepared(record.id, record.source or "", record.commit or "", warnings, given)

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
        if session.delivery.starter_files:
            return await self.write(id, await asyncio.to_thread(self.staged.read, session.id))
        if not session.repository:
            return await self.write(id, NO_FILES)
        caller = await caller_of(dependencies, session)
        remote = await self.forges().resolve_url(dependencies.address_of(session), caller)
        return await self.clone(
            id, remote, session, partial(_send_progress, dependencies.channels, session.id)
        )


def _send_progress(channels: Channels, session_id: SessionId, progress: Progress) -> None:
    total = f"/{progress.total:,}" if progress.total else ""
    channels.publish(session_id, Delta("", 0, "progress", f"{progress.step} {progress.done:,}{total}"))


def _send_line(channels: Channels, session_id: SessionId, line: str) -> None:
    channels.publish(session_id, Delta("", 0, "progress", f"Installing dependencies: {line}"))
