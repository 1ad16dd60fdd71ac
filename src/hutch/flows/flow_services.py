"""The services that the flows use."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import Protocol

from hutch.domain.generation_options import Generation
from hutch.domain.redaction import Redactor
from hutch.domain.session import Session
from hutch.flows.command_limits_and_sources import EffectiveLimit
from hutch.flows.extensions.extension_management import ExtensionManagement
from hutch.flows.member_session_caps import MemberCaps
from hutch.flows.policies.applicable_policies import Policies
from hutch.flows.repository_dependencies import Environments
from hutch.forge.allowed_repository_hosts import AllowedHosts
from hutch.forge.forge_and_credential_selection import Forges
from hutch.forge.host_git import Git
from hutch.sessions.interface import SessionHost
from hutch.store.event_log_interface import EventLog
from hutch.store.jail_secret_lookup import JailSecrets
from hutch.store.message_and_run_rate_limits import NO_RATES, SessionRates
from hutch.store.secret_lookup import InstallationSecrets
from hutch.store.table_access_interface import Rows
from hutch.store.user_model_keys import UserModelKeys
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.admission.local_repository_access import FoundRepository
from hutch.workspace.lifecycle.pending_starter_files import StagedFiles
from hutch.workspace.lifecycle.repository_reader_in_jail import JailedRepository
from hutch.workspace.workspace import Workspace

Removed = Callable[[Session, frozenset[str]], None]  # with the ids of the users who could see it

# Resolves a directory of this machine. The flags: whether it may be anywhere, as for owners; and whether it
# may be without git. Blocks, and refuses directories that no user may use.
FindRepository = Callable[[Path, bool, bool], FoundRepository]

# Refuses a model that cannot be used, such as one without a key, or with these options of its replies. Takes
# a model, a persona, and the id of a user whose own keys count; if the model is "", that of the persona or of
# the settings is checked. Blocks the thread.
CheckModel = Callable[[str, str, str, Generation], None]

# The limits of a session's commands; the flag: whether the caps on members apply. Blocks the thread.
EffectiveLimits = Callable[[Session, bool], Sequence[EffectiveLimit]]


# Opens a repository of this machine in a jail, read-only; None for a directory without git. The flag is that
# of `FindRepository`.
OpenRepository = Callable[[Path, bool], AbstractAsyncContextManager[JailedRepository | None]]


class OpenRecorded(Protocol):
    """Opens the snapshots of a user's directory that one of several processes took there."""

    def __call__(self, directory: Path, *, number: int) -> AbstractAsyncContextManager[Workspace]: ...


@dataclass(frozen=True, slots=True)
class Services:
    """The log, the rows, the session host, the redactor, stored starter files, and the rules for repositories
    and hosts."""

    log: EventLog
    rows: Rows
    host: SessionHost
    redactor: Redactor
    reach: AllowedHosts
    find_repository: FindRepository
    open_repository: OpenRepository
    forges: Callable[[], Forges]
    git: Git  # with the account's own credentials, where an address allows them
    open_recorded: OpenRecorded
    check_model: CheckModel
    staged: StagedFiles
    effective_limits: EffectiveLimits
    policies: Policies  # of owners
    user_keys: UserModelKeys
    jail_secrets: JailSecrets
    secrets: InstallationSecrets
    environments: Environments | None = None  # dependencies of repositories
    rates: SessionRates = NO_RATES
    networks: tuple[str, ...] = ()  # private networks that jails may reach
    personas: Path | None = None  # the directory of the installation's own
    extensions: ExtensionManagement | None = None
    default_persona: str = ""  # of the settings
    caps: MemberCaps = field(default_factory=MemberCaps)  # on what members may ask for
    reserved_for: str = ""  # the worker of the command that opens sessions here, unless it is a server
    opens_in_place: bool = False  # sessions of this process may work in a user's directory itself
    addresses: dict[str, str] = field(default_factory=dict)  # of repositories, with their credentials
    max_check_s: float = 4.0  # of an undo, before its sender is answered
    on_removed: list[Removed] = field(default_factory=list)  # called for each removed session
