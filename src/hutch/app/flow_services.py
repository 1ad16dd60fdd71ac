"""The services of the flows, for a server or for a command."""

from functools import partial
from typing import Any

from hutch.app import model_selection
from hutch.app.allowed_repositories import repositories_of
from hutch.app.workspaces import workspaces_of
from hutch.domain.redaction import Redactor
from hutch.flows.services import Services
from hutch.sessions.host import LocalHost
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog


def services_of(
    loaded: LoadedSettings, log: SqlLog, host: LocalHost, redactor: Redactor, **more: Any
) -> Services:
    return Services(
        log=log,
        rows=log,
        host=host,
        redactor=redactor,
        find_repository=repositories_of(loaded).find,
        open_repository=workspaces_of(loaded).open_repository,
        check_model=partial(model_selection.check_model, loaded),
        networks=tuple(loaded.settings.jail.private_networks),
        personas=loaded.paths.personas,
        default_persona=loaded.settings.persona,
        **more,
    )
