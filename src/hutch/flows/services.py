"""The services that the flows use."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from hutch.domain.redaction import Redactor
from hutch.domain.session import Session
from hutch.flows.member_network_cap import NetworkCap
from hutch.forge.host_pinning import AllowedHosts
from hutch.sessions.interface import SessionHost
from hutch.store.interface import EventLog
from hutch.store.table_access import Rows
from hutch.workspace.admission.repository_access import FoundRepository
from hutch.workspace.preparation.jailed_repository import JailedRepository

Removed = Callable[[Session, frozenset[str]], None]  # with the ids of the users who could see it

# Resolves a directory of this machine. The flags: whether it may be anywhere, as for owners; and whether it
# may be without git. Blocks, and refuses directories that no user may use.
FindRepository = Callable[[Path, bool, bool], FoundRepository]

# Refuses a model that cannot be used, such as one without a key. Takes a model and a persona; if the model is
# "", that of the persona or of the settings is checked. Blocks the thread.
CheckModel = Callable[[str, str], None]


# Opens a repository of this machine in a jail, read-only; None for a directory without git. The flag is that
# of `FindRepository`.
OpenRepository = Callable[[Path, bool], AbstractAsyncContextManager[JailedRepository | None]]


@dataclass(frozen=True, slots=True)
class Services:
    """The log, the rows, the session host, the redactor, and the rules for repositories and hosts."""

    log: EventLog
    rows: Rows
    host: SessionHost
    redactor: Redactor
    reach: AllowedHosts
    find_repository: FindRepository
    open_repository: OpenRepository
    check_model: CheckModel
    networks: tuple[str, ...] = ()  # private networks that jails may reach
    personas: Path | None = None  # the directory of the installation's own
    default_persona: str = ""  # of the settings
    network_cap: NetworkCap = field(default_factory=NetworkCap)  # on the hosts that members may allow
    reserved_for: str = ""  # the worker of the command that opens sessions here, unless it is a server
    addresses: dict[str, str] = field(default_factory=dict)  # of repositories, with their credentials
    on_removed: list[Removed] = field(default_factory=list)  # called for each removed session
