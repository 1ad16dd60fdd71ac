"""Sessions of a command: they live in its process, beside a server if there is one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hutch.app import models, personas
from hutch.app.accounts import system_user
from hutch.app.hosting import local_host
from hutch.app.repositories import repositories_of
from hutch.domain.user import Who, scopes_of
from hutch.flows.site import Site
from hutch.flows.users import Accounts
from hutch.forge.reach import Reach
from hutch.sessions.host import LocalHost
from hutch.settings import Loaded
from hutch.store.log import SqlLog, open_log
from hutch.store.reservation import own_name


@dataclass(frozen=True, slots=True)
class Local:
    """What a command needs for sessions of its own."""

    loaded: Loaded
    log: SqlLog
    site: Site
    host: LocalHost
    who: Who


@asynccontextmanager
async def open_local(loaded: Loaded, *, jobs: int = 1) -> AsyncIterator[Local]:
    """A session host in this process, for whoever runs the command: the first owner of the installation."""
    paths, redactor, name = loaded.paths, models.redactor(loaded), own_name()
    log_bytes = loaded.settings.sessions.log_bytes
    async with open_log(paths.database, paths.blobs, paths.signing_key, log_bytes=log_bytes) as log:
        owner = await Accounts(log).ensure_owner(await asyncio.to_thread(system_user))
        async with local_host(loaded, log, redactor, reserved_for=name, jobs=jobs) as host:
            site = Site(
                log=log,
                rows=log,
                host=host,
                redactor=redactor,
                reach=Reach(lambda address, networks: None),  # a command reaches what its user does
                find_repository=repositories_of(loaded).find,
                networks=tuple(loaded.settings.jail.network_also),
                personas=personas.folder(loaded),
                reserved_for=name,
                addresses=host.addresses,
            )
            yield Local(loaded, log, site, host, Who(owner, scopes_of(owner.role), "local", "local"))
