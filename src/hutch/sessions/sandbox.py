"""The sandbox of an open session: its workspace, its jail and the shells in that jail."""

from hutch.agent.repository_testing.workspace_test_suites_and_runs import DEFAULT_OPTIONS, SuiteOptions
from hutch.domain.session import Session
from hutch.jail.running_jail import Jailed
from hutch.jail.shell.shells_and_jails_by_session import Shells
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A workspace, its jail and the shells in that jail. The code that opened it closes it."""

    workspace: Workspace
    jail: Jailed
    shells: Shells
    allowed_commands: tuple[str, ...] = ()  # programs that `exec` may run; empty: all
    suite_options: SuiteOptions = DEFAULT_OPTIONS  # how the settings say that it is tested

    def suites_of(self, session: Session) -> SuiteOptions:
        """How the tests of a session are run: with its own command, if it has one."""
        return self.suite_options.with_command(session.delivery.tests)
