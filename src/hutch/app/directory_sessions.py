"""Sessions in a user's own directory, built from the settings."""

from functools import partial

from hutch.app.event_log import event_log
from hutch.app.model_selection import redactor
from hutch.app.workspaces import workspaces_of
from hutch.flows.directory_sessions import DirectorySessions
from hutch.settings import LoadedSettings


def directory_sessions(loaded: LoadedSettings) -> DirectorySessions:
    return DirectorySessions(
        workspaces=workspaces_of(loaded),
        open_log=partial(event_log, loaded.paths, log_bytes=loaded.settings.sessions.log_bytes),
        redactor=redactor(loaded),
    )
