"""Sessions in a user's own directory, built from the settings."""

from functools import partial

from hutch.flows.in_place_sessions import InPlaceSessions
from hutch.settings import LoadedSettings
from hutch.wiring.event_log import event_log
from hutch.wiring.installation_secrets import redactor
from hutch.wiring.test_suite_options import suite_options
from hutch.wiring.workspaces import workspaces_of


def in_place_sessions(loaded: LoadedSettings) -> InPlaceSessions:
    return InPlaceSessions(
        workspaces=workspaces_of(loaded),
        open_log=partial(event_log, loaded.paths, log_bytes=loaded.settings.sessions.log_bytes),
        redactor=redactor(loaded),
        suite_options=suite_options(loaded.settings, auto=False),  # the user decides
    )
