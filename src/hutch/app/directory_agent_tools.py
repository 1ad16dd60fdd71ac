"""Tools on a user's own directory, built from the settings."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial

from hutch.app import event_log, jails, model_selection
from hutch.app.allowed_repositories import check_directory
from hutch.app.workspaces import workspaces_of
from hutch.flows.directory_agent_tools import DirectoryTools
from hutch.jail.egress.attempt import Report
from hutch.jail.location import JailLocation
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.settings import LoadedSettings
from hutch.store.vault import Vault

TOKEN = "mcp_token"  # the name of a secret


def find_mcp_token(loaded: LoadedSettings) -> str | None:
    """The token that HTTP clients must send, if one is stored."""
    vault = Vault(loaded.paths.vault, loaded.paths.vault_keys)
    return vault.get(TOKEN) if loaded.paths.vault.exists() else None


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
        open_log=lambda: event_log.event_log(loaded.paths, log_bytes=settings.sessions.log_bytes),
        policy=jails.jail_policy(settings, network=network),
        open_jail=open_jail,
        redactor=model_selection.redactor(loaded),
        ignore=settings.ignore,
        test_command=settings.tests.command,
        test_timeout_s=settings.tests.timeout_s,
        test_memory_bytes=settings.tests.memory_bytes,
    )
