"""The workspaces of an installation, built from its settings."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from hutch.app.allowed_local_repositories import repositories_of
from hutch.app.vault_secrets_and_redactor import redactor
from hutch.forge.host_git import Git
from hutch.settings import LoadedSettings, user_environment
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
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
        complete=lambda record: _with_quota(record, settings_for(loaded, record)),
    )


def settings_for(loaded: LoadedSettings, record: Record) -> LoadedSettings:
    """The settings for a workspace: those of its repository count, as they were when it was prepared."""
    return loaded.with_repository(os.fsencode(record.settings)) if record.settings else loaded


def _with_quota(record: Record, loaded: LoadedSettings) -> Record:
    settings = loaded.settings.workspace
    return replace(record, quota_bytes=settings.quota_bytes, quota_files=settings.quota_files)


@asynccontextmanager
async def open_workspace(loaded: LoadedSettings, id: str) -> AsyncIterator[Workspace]:
    """Open a workspace whose snapshots contain no secret of the installation."""
    record = await workspaces_of(loaded).find(id)
    limited = settings_for(loaded, record) if record else loaded
    async with workspaces_of(limited).open(id, clean=redactor(loaded).redact) as workspace:
        yield workspace
