"""Finds the clocks of the processes that do the work of a session: those of shells, terminals and jobs."""

from collections.abc import Sequence

from hutch.domain.errors import NotFound
from hutch.jail.command_cpu_activity import RunClock
from hutch.jail.command_process import Command
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.sessions.author_work_periods import TERMINAL_JOBS, Key
from hutch.sessions.terminals import Terminals


class WorkClocks:
    """The clocks of one open jail, by the keys of `Activity`."""

    def __init__(self, shells: Shells, terminals: Terminals) -> None:
        self._shells = shells
        self._terminals = terminals

    def find(self, key: Key) -> RunClock | None:
        """The clock of work that was begun under a key; None if it has no processes of its own."""
        match key:
            case ("terminal", str() as id, _):
                return RunClock(lambda: self._terminals.commands(id))
            case ("jobs", str() as source, _) if source.startswith(TERMINAL_JOBS):
                id = source.removeprefix(TERMINAL_JOBS)
                return RunClock(lambda: self._terminals.commands(id), jobs_only=True)
            case ("jobs", str() as name, _):
                return RunClock(lambda: self._shells.shell(name).commands, jobs_only=True)
            case ("shell", str() as name):
                return RunClock(lambda: self._shells.shell(name).commands[-1:])
            case ("background" | "jobs beside", str() as id, *_):
                return RunClock(lambda: self._background(id))
        return None

    def _background(self, id: str) -> Sequence[Command]:
        try:
            return self._shells.background.get(id).commands
        except NotFound:
            return ()
