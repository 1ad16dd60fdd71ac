"""A server: everything that its doors open to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hutch.app import forges, models, personas, workspaces
from hutch.app.hosting import local_host
from hutch.app.keeping import keep_tidy
from hutch.app.repositories import repositories_of, with_fixed_roots
from hutch.app.session_network import network_cap
from hutch.app.triggers import triggers_of
from hutch.domain.redaction import Redactor
from hutch.flows.removal import finish_removals
from hutch.flows.site import Site
from hutch.flows.triggers import Triggers
from hutch.sessions.seam import SessionHost
from hutch.settings import Loaded
from hutch.store.log import open_log
from hutch.store.presence import Presence
from hutch.store.rows import Rows
from hutch.store.seam import EventLog
from hutch.store.soundness import check_soundness
from hutch.system.clock import wall_ms


@dataclass(slots=True)
class Server:
    """What the gateway hangs on."""

    loaded: Loaded
    site: Site
    triggers: Triggers
    presence: Presence
    started_ms: int = field(default_factory=lambda: wall_ms())
    closing: bool = False  # it takes nothing new, and tells those who follow

    @property
    def log(self) -> EventLog:
        return self.site.log

    @property
    def rows(self) -> Rows:
        return self.site.rows

    @property
    def host(self) -> SessionHost:
        return self.site.host

    @property
    def redactor(self) -> Redactor:
        return self.site.redactor


@asynccontextmanager
async def _sound(database: Path) -> AsyncIterator[None]:
    """Refuse a damaged database, before anything is begun with it."""
    await asyncio.to_thread(check_soundness, database)
    yield


@asynccontextmanager
async def open_server(loaded: Loaded) -> AsyncIterator[Server]:
    """Everything behind the doors: the log, the rows, and the sessions that live here.

    Whoever calls this holds the lock against a second server on the same data.
    """
    loaded = await asyncio.to_thread(with_fixed_roots, loaded)
    paths, redactor = loaded.paths, models.redactor(loaded)
    find = repositories_of(loaded).find
    log_bytes = loaded.settings.sessions.log_bytes
    async with (
        open_log(paths.database, paths.blobs, paths.signing_key, log_bytes=log_bytes) as log,
        _sound(paths.database),
        local_host(loaded, log, redactor) as host,
    ):
        networks = tuple(loaded.settings.jail.network_also)
        own = personas.folder(loaded)
        reach, cap = forges.reach_of(loaded), network_cap(loaded)
        site = Site(log, log, host, redactor, reach, find, networks, own, cap)
        triggers = triggers_of(loaded, site)
        removing = finish_removals(site, lambda id: workspaces.remove(loaded, id))
        behind = [asyncio.ensure_future(each) for each in (triggers.run(), keep_tidy(loaded, log), removing)]
        try:
            yield Server(loaded, site, triggers, log.presence)
        finally:
            for each in behind:
                each.cancel()
            await asyncio.gather(*behind, return_exceptions=True)
