"""Tools on a user's own directory, built from the settings."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from hutch.app import event_log, jails, vault_secrets_and_redactor
from hutch.app.allowed_local_repositories import check_directory
from hutch.app.models import embedder
from hutch.app.owner_policies import policies_of
from hutch.app.repository_test_options import suite_options
from hutch.app.workspaces import workspaces_of
from hutch.flows.directory_tools import DirectoryTools
from hutch.jail.egress.egress_attempt_and_limit_types import Report
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.settings import LoadedSettings

TOKEN = "mcp_token"  # the name of a secret


def find_mcp_token(loaded: LoadedSettings) -> str | None:
    """The token that HTTP clients must send, if one is set."""
    return vault_secrets_and_redactor.secrets_of(loaded, {TOKEN}).get(TOKEN)


def directory_tools(
    loaded: LoadedSettings,
    *,
    network: Sequence[str] = (),
    plain: bool = False,
    unsafe_workspace: bool = False,
) -> DirectoryTools:
    """`plain` allows a directory without git."""
    settings = loaded.settings

    def open_jail(
        place: JailLocation, policy: Policy, on_egress: Report
    ) -> AbstractAsyncContextManager[Jailed]:
        outside = jails.egress_options(settings, on_egress)
        return jails.open_jail(place, policy, outside=outside, unsafe_workspace=unsafe_workspace)

    return DirectoryTools(
        workspaces=workspaces_of(loaded),
        check_directory=partial(check_directory, loaded, plain=plain, unsafe=unsafe_workspace),
        open_log=lambda: event_log.event_log(loaded, log_bytes=settings.sessions.log_bytes),
        policy=jails.jail_policy(settings, network=network),
        open_jail=open_jail,
        redactor=vault_secrets_and_redactor.redactor(loaded),
        policies_of=partial(policies_of, loaded),
        ignore=settings.ignore,
        allowed_commands=settings.jail.allowed_commands,
        suite_options=suite_options(settings),
        embedder=embedder(loaded),
    )
