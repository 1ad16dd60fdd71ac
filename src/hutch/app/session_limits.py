"""The limits of sessions, from the settings."""

from hutch.app.jails import jail_policy
from hutch.app.owner_policies import policies_of
from hutch.app.throwaway_jail_code_executor import code_executor
from hutch.app.workspaces import settings_for, workspaces_of
from hutch.flows.interviews.workspace_toolchains import WorkspaceToolchains
from hutch.flows.session_jail_policy_and_limits import SessionLimits
from hutch.settings import LoadedSettings
from hutch.store.jail_secret_lookup import JailSecrets
from hutch.store.table_access_interface import Rows


def session_limits(loaded: LoadedSettings, rows: Rows) -> SessionLimits:
    return SessionLimits(
        rows=rows,
        policies=policies_of(loaded, rows),
        home=workspaces_of(loaded).home,
        jail=dict(loaded.settings.jail),
        members=dict(loaded.settings.members),
        is_set=lambda name: loaded.origins[f"jail.{name}"] != "default",
        of_repository=lambda record: settings_for(loaded, record).values_of_repository("jail"),
        toolchains=WorkspaceToolchains(rows, code_executor(loaded)),
        secrets=JailSecrets(loaded.paths.vault, loaded.paths.vault_keys),
        build_policy=lambda record, **options: jail_policy(settings_for(loaded, record).settings, **options),
    )
