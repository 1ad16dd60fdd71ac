"""The sandbox of an open session: its workspace, its jail and the shells in that jail."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field

from hutch.agent.repository_testing.workspace_test_suite_runs import DEFAULT_OPTIONS, SuiteOptions
from hutch.domain.session import Session
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.code_search.search_by_meaning import Embeds
from hutch.workspace.workspace import Workspace

# Opens another jail for the session by its policy and its use of the workspace: `none`, `read` or `write`.
OpenBeside = Callable[[Policy, str], AbstractAsyncContextManager[Jailed]]


@dataclass(slots=True)
class StartTime:
    """How long a jail took to start, for the first run in it."""

    seconds: float | None = None

    def take(self) -> float | None:
        """The time, once; None afterwards."""
        seconds, self.seconds = self.seconds, None
        return seconds


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A workspace, its jail and the shells in that jail. The code that opened it closes it."""

    workspace: Workspace
    jail: Jailed
    shells: Shells
    allowed_commands: tuple[str, ...] = ()  # programs that `exec` may run; empty: all
    suite_options: SuiteOptions = DEFAULT_OPTIONS  # how the settings say that it is tested
    start: StartTime = field(default_factory=StartTime)
    open_beside: OpenBeside | None = None  # None where there is no other jail on this workspace
    embedder: Embeds | None = None  # for search by meaning

    def suites_of(self, session: Session) -> SuiteOptions:
        """How the tests of a session are run: with its own command, if it has one."""
        return self.suite_options.with_command(session.delivery.tests)
