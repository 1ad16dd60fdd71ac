"""What the flows of a server stand on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hutch.domain.redaction import Redactor
from hutch.domain.session import Session
from hutch.flows.network_cap import NetworkCap
from hutch.forge.allowed_hosts import AllowedHosts
from hutch.sessions.interface import SessionHost
from hutch.store.interface import EventLog
from hutch.store.rows import Rows

Removed = Callable[[Session, frozenset[str]], None]  # with the ids of those who could see it

# A directory of this machine as it is to be used, given as it was named; whether it may be anywhere, as for
# owners; and whether it may be without git. Blocks, and refuses what nobody may use.
FindRepository = Callable[[Path, bool, bool], Path]

# Refuses a model that cannot be used, such as one without a key; "" is the model of the settings. Blocks.
CheckModel = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Services:
    """The log, the rows beside it, where sessions live, what must not be told, and what may be named."""

    log: EventLog
    rows: Rows
    host: SessionHost
    redactor: Redactor
    reach: AllowedHosts
    find_repository: FindRepository
    check_model: CheckModel
    networks: tuple[str, ...] = ()  # private ones that jails may reach all the same
    personas: Path | None = None  # where the installation's own are
    network_cap: NetworkCap = field(default_factory=NetworkCap)  # on the hosts that members may allow
    reserved_for: str = ""  # the worker of the command that opens sessions here, when it is no server
    addresses: dict[str, str] = field(default_factory=dict)  # of repositories, with their credentials
    on_removed: list[Removed] = field(default_factory=list)  # told of sessions that are no more
