"""What the flows of a server stand on."""

from dataclasses import dataclass

from hutch.domain.redaction import Redactor
from hutch.sessions.seam import SessionHost
from hutch.store.rows import Rows
from hutch.store.seam import EventLog


@dataclass(frozen=True, slots=True)
class Site:
    """The log, the rows beside it, where sessions live, and what must not be told."""

    log: EventLog
    rows: Rows
    host: SessionHost
    redactor: Redactor
