"""The retention of session files, from the settings."""

from hutch.app.repository_dependencies import environments_of
from hutch.app.workspaces import workspaces_of
from hutch.flows.session_file_retention import Keep, Retention
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog


def retention_of(loaded: LoadedSettings, log: SqlLog) -> Retention:
    settings = loaded.settings.sessions
    keep = Keep(
        days=settings.file_retention_days,
        code_hours=settings.code_retention_hours,
        bytes=int(settings.file_retention_bytes),
    )
    return Retention(log, workspaces_of(loaded), keep, environments_of(loaded))
