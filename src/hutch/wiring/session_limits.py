"""The limits of sessions, from the settings."""

from hutch.flows.session_network_and_limits import SessionLimits
from hutch.settings import LoadedSettings
from hutch.store.jail_secrets import JailSecrets
from hutch.store.table_access import Rows
from hutch.wiring.jails import jail_policy
from hutch.wiring.owner_policies import policies_of
from hutch.wiring.workspaces import settings_for, workspaces_of


def session_limits(loaded: LoadedSettings, rows: Rows) -> SessionLimits:
    return SessionLimits(
        rows=rows,
        policies=policies_of(loaded, rows),
        home=workspaces_of(loaded).home,
        jail=dict(loaded.settings.jail),
        members=dict(loaded.settings.members),
        is_set=lambda name: loaded.origins[f"jail.{name}"] != "default",
        of_repository=lambda record: settings_for(loaded, record).values_of_repository("jail"),
        secrets=JailSecrets(loaded.paths.vault, loaded.paths.vault_keys),
        build_policy=lambda record, **options: jail_policy(settings_for(loaded, record).settings, **options),
    )
