"""Sends signals to the processes that an ended command left running."""

from hutch.domain.errors import LimitReached
from hutch.jail.leftover_job_detection import Jobs
from hutch.jail.shell.shell_process import ShellProcess
from hutch.system.lazy_dataclass import dataclass

SIGKILL = 9
SCRIPT = 'number=$1; shift; kill -s "$number" -- "$@"'
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class LeftProcesses:
    """The processes of one command; `jobs` is None if they were too many to list."""

    process: ShellProcess
    jobs: Jobs | None

    @property
    def any_left(self) -> bool:
        """True if one of them is alive, or if that is unknown because they are too many."""
        if self.process.is_gone or self.jobs is None:
            return not self.process.is_gone
        found = self.process.command.find_jobs(self.jobs)
        return not found.is_complete or bool(found.all - found.new)

    async def signal(self, number: int) -> bool:
        """Send a signal to each; False if none is left. If no process can be started for that, or there are
        too many, SIGKILL also ends the shell, with all that its other commands left; the next command gets a
        new shell."""
        if self.process.is_gone:
            return False
        found = self.process.command.find_jobs(self.jobs) if self.jobs is not None else None
        if found is not None and found.is_complete:
            pids = [str(pid) for pid, _ in found.all - found.new]
            try:
                if pids:
                    argv = ["/bin/sh", "-c", SCRIPT, "sh", str(number), *pids]
                    await self.process.jail.run(argv, timeout_s=TIMEOUT_S)
                return bool(pids)
            except LimitReached:
                if number != SIGKILL:
                    raise
        if number != SIGKILL:
            raise LimitReached(
                "It left too many processes to send each of them this signal. Send KILL instead.",
                limit="processes",
            )
        await self.process.kill()
        return True
