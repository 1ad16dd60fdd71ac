"""The forges of an installation, built from its settings and secrets."""

from functools import partial

from hutch.app.allowed_local_repositories import repositories_of
from hutch.app.jails import jail_policy
from hutch.app.vault_secrets_and_redactor import secrets_of
from hutch.forge.allowed_repository_hosts import AllowedHosts
from hutch.forge.forge_and_credential_selection import Forges
from hutch.forge.gh_command import RetryPolicy
from hutch.forge.github_token_selection import Tokens
from hutch.jail.egress.blocked_addresses import refusal
from hutch.jail.pid_stamped_names import make_directory
from hutch.settings import LoadedSettings, user_environment
from hutch.workspace.admission.local_repository_git_jail import open_git


def forges_of(loaded: LoadedSettings) -> Forges:
    return Forges(
        tokens_of(loaded),
        reach_of(loaded),
        partial(open_git, repositories_of(loaded), partial(jail_policy, loaded.settings)),
        partial(make_directory, "hutch-gh"),  # the next process cleans up if this one is killed
        RetryPolicy(max_wait_s=loaded.settings.github.max_retry_wait_s),
        user_environment(),
    )


def tokens_of(loaded: LoadedSettings) -> Tokens:
    github = loaded.settings.github
    return Tokens(
        lambda names: secrets_of(loaded, names),
        tuple(github.hosts),
        github.app_id or "",
        github.app_host,
        github.unix_socket or "",
        user_environment(),
    )


def reach_of(loaded: LoadedSettings) -> AllowedHosts:
    """The hosts that requests may name."""
    settings = loaded.settings
    names = (host.rpartition(":")[0] if _has_port(host) else host for host in settings.github.hosts)
    return AllowedHosts(refusal, (*settings.server.repository_hosts, *names))


def _has_port(host: str) -> bool:
    """True if a host has a port; an IPv6 address contains colons as well."""
    return host.count(":") == 1 or "]:" in host
