"""The extensions and hooks of an installation, from its settings."""

from hutch.agent.extensions.extension_approvals import Approvals
from hutch.agent.extensions.extension_catalogue_file import Catalogue
from hutch.agent.hooks.trusted_hooks import TrustedHooks
from hutch.app import jails
from hutch.app.allowed_local_repositories import own_directories
from hutch.app.session_limits import session_limits
from hutch.app.vault_secrets_and_redactor import redactor
from hutch.flows.extensions.approved_extensions_of_run import Extensions
from hutch.flows.extensions.extension_management import ExtensionManagement
from hutch.flows.hooks.hooks_of_run import HookSources
from hutch.flows.session_jail_policy_and_limits import SessionLimits
from hutch.settings import LoadedSettings
from hutch.store.table_access_interface import Rows


def extensions_of(loaded: LoadedSettings, limits: SessionLimits) -> Extensions:
    catalogue = Catalogue(loaded.settings.extensions.catalogue or loaded.paths.catalogue)
    return Extensions(catalogue, Approvals(loaded.paths.extensions), limits.policies, limits.secrets)


def extension_management(loaded: LoadedSettings, rows: Rows) -> ExtensionManagement:
    extensions, own = extensions_of(loaded, session_limits(loaded, rows)), own_directories(loaded.paths)
    policy, networks = jails.jail_policy(loaded.settings), loaded.settings.jail.private_networks
    return ExtensionManagement(extensions, rows, jails.open_jail, policy, networks, redactor(loaded), own)


def hooks_of(loaded: LoadedSettings) -> HookSources:
    return HookSources(loaded.paths.hooks, TrustedHooks(loaded.paths.trusted_hooks))
