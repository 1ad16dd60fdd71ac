"""The workspaces of an installation, built from its settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app import models
from hutch.app.repositories import repositories_of
from hutch.forge.git import Git
from hutch.settings import LoadedSettings, user_environment
from hutch.workspace.preparation.filler import Options
from hutch.workspace.preparation.record import Home
from hutch.workspace.workspace import SnapshotLimits, Workspace
from hutch.workspace.workspaces import BaseLimits, Workspaces


def workspaces_of(loaded: LoadedSettings) -> Workspaces:
    """The workspaces; git uses the account's own credentials for addresses that allow it."""
    settings = loaded.settings.workspace
    return Workspaces(
        home=Home(loaded.paths.data),
        repositories=repositories_of(loaded),
        git=Git(user_environment()),
        options=Options(
            mode=settings.mode,
            storage=settings.storage,
            quota_bytes=settings.quota_bytes,
            quota_files=settings.quota_files,
        ),
        snapshot_limits=SnapshotLimits(snapshots=settings.snapshots, bytes=settings.snapshots_bytes),
        bases=BaseLimits(settings.bases_bytes, float(settings.bases_days)),
    )


@asynccontextmanager
async def open_workspace(loaded: LoadedSettings, id: str) -> AsyncIterator[Workspace]:
    """Open a workspace whose snapshots contain no secret of the installation."""
    async with workspaces_of(loaded).open(id, clean=models.redactor(loaded).redact) as workspace:
        yield workspace
