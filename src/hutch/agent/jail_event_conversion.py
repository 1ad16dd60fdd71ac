"""A jail's reports about its commands and its network, as events of the log."""

from hutch.domain import events
from hutch.jail.egress import EgressAttempt
from hutch.jail.shell.command_results_and_events import (
    CommandEnded,
    CommandStarted,
    CommandYielded,
    JobsDetached,
    JobsEnded,
    ShellEvent,
)


def as_event(report: ShellEvent | EgressAttempt) -> events.Event:
    match report:
        case CommandStarted():
            return events.CommandStarted(
                shell=report.shell,
                command=report.command,
                cwd=report.cwd,
                by=report.by,
                call_id=report.call_id,
            )
        case CommandYielded():
            return events.CommandYielded(
                shell=report.shell, command=report.command, background_id=report.id, by=report.by
            )
        case CommandEnded():
            return events.CommandEnded(
                shell=report.shell,
                command=report.command,
                cwd=report.cwd,
                exit_code=report.exit_code,
                signal=report.signal,
                timed_out=report.timed_out,
                duration_s=round(report.duration_s, 6),
                background_id=report.id,
                by=report.by,
            )
        case JobsDetached():
            return events.JobsDetached(
                shell=report.shell, command=report.command, background_id=report.id, by=report.by
            )
        case JobsEnded():
            return events.JobsEnded(shell=report.shell, background_id=report.id)
        case EgressAttempt():
            return events.EgressAttempted(
                method=report.method,
                host=report.host,
                port=report.port,
                allowed=report.allowed,
                reason=report.reason,
            )
