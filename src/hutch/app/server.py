"""A server: everything that its doors open to."""

import time
from dataclasses import dataclass, field

from hutch.domain.redaction import Redactor
from hutch.flows.site import Site
from hutch.sessions.seam import SessionHost
from hutch.settings import Loaded
from hutch.store.rows import Rows
from hutch.store.seam import EventLog

__all__ = ["Server"]


@dataclass(slots=True)
class Server:
    """What the gateway hangs on."""

    loaded: Loaded
    site: Site
    started_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)
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
