"""Sessions in a user's own directory, built from the settings."""

from functools import partial

from hutch.app.event_log import event_log
from hutch.app.repository_test_options import suite_options
from hutch.app.vault_secrets_and_redactor import redactor
from hutch.app.workspaces import workspaces_of
from hutch.flows.in_place_sessions_without_agent import InPlaceSessions
from hutch.settings import LoadedSettings


def in_place_sessions(loaded: LoadedSettings) -> InPlaceSessions:
    return InPlaceSessions(
        workspaces=workspaces_of(loaded),
        open_log=partial(event_log, loaded, log_bytes=loaded.settings.sessions.log_bytes),
        redactor=redactor(loaded),
        suite_options=suite_options(loaded.settings, auto=False),  # the user decides
    )
