"""Environments of repositories, built from the settings."""

from hutch.app.allowed_local_repositories import own_directories
from hutch.app.jails import jail_policy
from hutch.app.repository_test_options import services_of
from hutch.app.workspaces import settings_for, workspaces_of
from hutch.environment.host_toolchains_in_jails import find_toolchains, toolchain_directories
from hutch.environment.plan_selection import EnvironmentSettings
from hutch.flows.repository_dependencies import Environments
from hutch.settings import LoadedSettings
from hutch.settings.host_package_index_variables import index_variables


def environments_of(loaded: LoadedSettings) -> Environments:
    workspaces = workspaces_of(loaded)
    return Environments(
        home=workspaces.home,
        git=workspaces.git,
        settings=lambda record: environment_settings(settings_for(loaded, record)),
        policy=lambda record: jail_policy(settings_for(loaded, record).settings),
        indexes=index_variables(),
        own=own_directories(loaded.paths),
    )


def environment_settings(loaded: LoadedSettings) -> EnvironmentSettings:
    values = dict(loaded.settings.environment)
    variables = dict(each.split("=", 1) for each in values["variables"])
    return EnvironmentSettings(
        **{**values, "services": tuple(services_of(loaded.settings)), "variables": variables},
        is_trusted=not loaded.is_from_repository("environment.setup"),
        toolchains=toolchain_directories(
            find_toolchains(loaded.settings.jail.toolchains, own_directories(loaded.paths))
        ),
        private_networks=tuple(loaded.settings.jail.private_networks),
    )
