"""The commands that a run of the agent leaves running when it ends.

The end of a run names them. Everything that is recorded about them later has their ids, so it belongs to them
and not to the run.
"""

from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.events import (
    CommandEnded,
    CommandYielded,
    Event,
    JobsDetached,
    JobsEnded,
    RunEnded,
    RunStarted,
)


class CommandsLeftRunning:
    """The ids under which commands of the current run may still print."""

    def __init__(self) -> None:
        self._commands: set[str] = set()
        self._jobs: set[str] = set()  # ended commands with processes that may print

    def note(self, report: Event) -> None:
        """Note a report of the jail."""
        match report:
            case CommandYielded(background_id=id_, by=by) if by == AGENT:
                self._commands.add(id_)
            case CommandEnded(background_id=str() as id_):
                self._commands.discard(id_)
            case JobsDetached(background_id=str() as id_, by=by) if by == AGENT:
                self._jobs.add(id_)
            case JobsEnded(background_id=str() as id_):
                self._jobs.discard(id_)

    def complete(self, event: Event) -> Event:
        """The event as it is written: the end of a run with the ids."""
        if isinstance(event, RunStarted):
            self._commands.clear()
            self._jobs.clear()
        if not isinstance(event, RunEnded):
            return event
        return event.model_copy(update={"left_running": tuple(sorted(self._commands | self._jobs))})
