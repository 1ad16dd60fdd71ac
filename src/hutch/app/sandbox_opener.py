"""Sandboxes on workspaces, built from the settings."""

from functools import partial

from hutch.app import jails
from hutch.app.models import embedder
from hutch.app.repository_test_options import suite_options
from hutch.app.workspaces import open_workspace, settings_for
from hutch.sessions.sandbox_opening import SandboxOpener, SandboxOptions
from hutch.settings import LoadedSettings
from hutch.workspace.lifecycle.workspace_record_and_directories import Record


def sandbox_opener(loaded: LoadedSettings) -> SandboxOpener:
    return SandboxOpener(
        open_workspace=partial(open_workspace, loaded),
        open_jail=lambda place, policy, outside: jails.open_jail(place, policy, outside=outside),
        options=partial(_options, loaded),
    )


def _options(loaded: LoadedSettings, record: Record) -> SandboxOptions:
    settings = settings_for(loaded, record).settings
    return SandboxOptions(
        networks=settings.jail.private_networks,
        allowed_commands=settings.jail.allowed_commands,
        suite_options=partial(suite_options, settings),
        embedder=embedder(loaded),
    )
