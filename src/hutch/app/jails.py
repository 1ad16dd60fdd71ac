"""Jails, with the policy that the settings define."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hutch.app.allowed_local_repositories import own_directories
from hutch.environment.host_toolchains_in_jails import find_toolchains, toolchain_variables
from hutch.flows.interview_questions.bank_directories import bank_directories
from hutch.jail.egress.egress_attempt_and_limit_types import Report
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.jail_startup import Jailed
from hutch.jail.policy import Policy, build_policy
from hutch.settings import Settings, find_paths
from hutch.workspace.admission.jail_on_checked_directory import open_checked_jail

# Every other setting of a jail is a limit.
OTHER_SETTINGS = ("network", "private_networks", "allowed_commands", "variables", "toolchains")
NO_LIMITS: Mapping[str, Any] = MappingProxyType({})


def jail_policy(
    settings: Settings,
    *,
    profile_name: str = "agent",
    network: Sequence[str] = (),
    author: str = "",
    limits: Mapping[str, Any] = NO_LIMITS,
    variables: Sequence[tuple[str, str]] = (),
) -> Policy:
    """The policy of a jail by the settings; `limits` and `variables` replace theirs."""
    own = {name: value for name, value in settings.jail if name not in OTHER_SETTINGS}
    hosts = (*settings.jail.network, *network)
    author = author or settings.delivery.author or ""
    policy = build_policy(profile_name, {**own, **limits}, network=hosts, git_author=author)
    toolchains = find_toolchains(settings.jail.toolchains, own_directories(find_paths()))
    of_repository = dict(each.split("=", 1) for each in settings.environment.variables)
    own_variables = {**settings.jail.variables, **dict(variables)}
    found = {**toolchain_variables(toolchains), **of_repository, **own_variables}
    shown = tuple(dict.fromkeys(path for each in toolchains for path in each.shown))
    policy = replace(policy, hidden=bank_directories(settings.questions.banks))
    return replace(policy, environment=tuple(found.items()), readonly=shown)


def egress_options(settings: Settings, on_egress: Report) -> Outside:
    """The options of a jail's proxy, which runs even if no host is allowed: it refuses immediately."""
    return Outside(on_egress=on_egress, also_allow_networks=settings.jail.private_networks, always=True)


def open_jail(
    workspace: Path | JailLocation,
    policy: Policy,
    *,
    outside: Outside | None = None,
    unsafe_workspace: bool = False,
    unsafe_no_jail: bool = False,
) -> AbstractAsyncContextManager[Jailed]:
    """Open a jail on a directory, after checking that it may be used as a workspace."""
    own = None if unsafe_workspace or unsafe_no_jail else own_directories(find_paths())
    return open_checked_jail(workspace, policy, own, outside=outside, unsafe_no_jail=unsafe_no_jail)
