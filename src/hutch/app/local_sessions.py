"""Sessions that run in the process of a command, beside a server if there is one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.app import vault_secrets_and_redactor
from hutch.app.event_log import event_log
from hutch.app.session_file_retention import retention_of
from hutch.app.session_host import local_host, services_of
from hutch.domain.user import Caller, scopes_of
from hutch.flows.flow_services import Services
from hutch.flows.in_place_workspaces import InPlaceDirectories
from hutch.flows.legacy_approval_import import import_approvals
from hutch.flows.user_accounts import Accounts
from hutch.flows.user_running_hutch import system_user
from hutch.forge.allowed_repository_hosts import AllowedHosts
from hutch.sessions.live_session_host import LocalHost
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog
from hutch.store.runs_reserved_for_process import reservation_name
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Local:
    """The services for sessions in the process of a command."""

    loaded: LoadedSettings
    log: SqlLog
    services: Services
    host: LocalHost
    caller: Caller


@asynccontextmanager
async def open_local(
    loaded: LoadedSettings, *, jobs: int = 1, in_place: InPlaceDirectories | None = None
) -> AsyncIterator[Local]:
    """Open a session host in this process; the caller is the installation's first owner."""
    paths, redactor, name = loaded.paths, vault_secrets_and_redactor.redactor(loaded), reservation_name()
    async with event_log(loaded, log_bytes=loaded.settings.sessions.log_bytes) as log:
        owner = await Accounts(log).ensure_owner(await asyncio.to_thread(system_user))
        await import_approvals(log, paths.approvals)
        hosting = local_host(loaded, log, redactor, reserved_for=name, jobs=jobs, in_place=in_place)
        async with retention_of(loaded, log).removing_old_afterwards(), hosting as host:
            reach = AllowedHosts(lambda address, networks: None)  # a command may reach every host
            own = {"reserved_for": name, "addresses": host.addresses, "opens_in_place": in_place is not None}
            services = services_of(loaded, log, host, redactor, reach=reach, **own)
            yield Local(loaded, log, services, host, Caller(owner, scopes_of(owner.role), "local", "local"))
