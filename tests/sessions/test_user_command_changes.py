"""Which snapshots people's commands ran between."""

import pytest

from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Entry,
    Event,
    EventsOmitted,
    JobsDetached,
    JobsEnded,
    RunEnded,
    RunStarted,
    SessionParked,
    SnapshotTaken,
    TerminalEnded,
    TerminalPrinted,
)
from hutch.domain.ids import SessionId
from hutch.sessions.user_command_changes import AFTER_COMMAND, BEFORE_COMMAND, spans


def snap(number: int, reason: str = "after bash") -> Event:
    return SnapshotTaken(snapshot=number, tree="", reason=reason)


def began(shell: str = "main") -> Event:
    return CommandStarted(shell=shell, command="x", cwd="/")


def ended(shell: str = "main", id: str | None = None) -> Event:
    return CommandEnded(shell=shell, command="x", cwd="/", exit_code=0, duration_s=0, background_id=id)


def shown(text: str) -> Event:
    return TerminalPrinted(terminal="1", text=text)


def omitted(type_: str) -> Event:
    return EventsOmitted(cause="storage", reason="", since_ms=0, until_ms=0, count=1, types={type_: 1})


YIELDED = CommandYielded(shell="main", command="x", background_id="b1")
RUN = RunStarted(run_id="run_1", prompt="", persona="", model="")
JOBS, NO_JOBS = JobsDetached(shell="main"), JobsEnded(shell="main")
AGENTS_JOBS = JobsDetached(shell="agent")
OVER = RunEnded(run_id="run_1", outcome="done")
BEFORE, AFTER = f"{BEFORE_COMMAND}main", f"{AFTER_COMMAND}main"


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([RUN, snap(3), began("agent"), ended("agent"), snap(4)], []),
        ([snap(3, BEFORE), began(), ended(), snap(4, AFTER), snap(5)], [(3, 4)]),
        ([snap(3, BEFORE), began(), snap(4), ended(), snap(5, AFTER), snap(6)], [(3, 5)]),
        ([snap(3), began(), ended(), snap(4), snap(5), snap(6)], [(3, 5)]),
        ([snap(3), began(), ended(), snap(4)], [(3, 9)]),
        ([snap(3), began(), YIELDED, ended("other"), snap(4), snap(5), snap(6)], [(3, 9)]),
        ([snap(3), began(), YIELDED, snap(4), ended("main", "b1"), snap(5), snap(6), snap(7)], [(3, 6)]),
        ([snap(3), shown("user$ "), snap(4), snap(5), snap(6)], [(3, 5)]),
        ([snap(3), shown("make\r\n"), snap(4), snap(5), shown("$ \x1b[K"), snap(6), snap(7)], [(3, 7)]),
        (
            [snap(3), shown("vi\r\n"), snap(4), TerminalEnded(terminal="1"), snap(5), snap(6), snap(7)],
            [(3, 6)],
        ),
        ([snap(3), began(), SessionParked(reason=""), snap(4), snap(5), snap(6)], [(3, 5)]),
        ([snap(1), began(), snap(2), snap(3), ended(), snap(4), snap(5)], [(2, 5)]),
        ([snap(1, BEFORE), began(), ended(), snap(2, AFTER), snap(3)], []),
        ([snap(3, BEFORE), snap(4, AFTER), snap(5, BEFORE), snap(6, AFTER), snap(7)], [(3, 4), (5, 6)]),
        ([snap(3), OVER, began(), ended()], []),
        ([snap(3, BEFORE), began(), JOBS, ended(), snap(4, AFTER), snap(5), snap(6)], [(3, 9)]),
        ([snap(3, BEFORE), began(), JOBS, ended(), snap(4, AFTER), NO_JOBS, snap(5), snap(6)], [(3, 6)]),
        ([snap(1), began(), JOBS, ended(), snap(2), RUN, snap(3), NO_JOBS, snap(4), snap(5)], [(2, 5)]),
        ([snap(1), began(), JOBS, ended(), NO_JOBS, snap(2), RUN, snap(3), snap(4), snap(5)], []),
        ([snap(1), JOBS, SessionParked(reason=""), snap(2), RUN, snap(3), snap(4), snap(5)], []),
        ([snap(2), RUN, began("agent"), AGENTS_JOBS, ended("agent"), snap(3), snap(4)], []),
        ([began("agent"), AGENTS_JOBS, ended("agent"), snap(2), RUN, snap(3), snap(4)], [(2, 9)]),
        (
            [snap(2), RUN, AGENTS_JOBS, snap(3, f"{BEFORE_COMMAND}agent"), ended("agent"), snap(4)],
            [(3, 9)],
        ),
        ([snap(3), shown("x&\r\n$ "), snap(4), JobsDetached(terminal="1"), snap(5), snap(6)], [(3, 9)]),
        ([snap(3), omitted("jobs.detached"), snap(4), snap(5), snap(6)], [(3, 9)]),
        ([snap(1), omitted("jobs.detached"), snap(2), RUN, snap(3), snap(4), snap(5)], [(2, 9)]),
        ([omitted("jobs.detached"), SessionParked(reason=""), snap(2), RUN, snap(3), snap(4), snap(5)], []),
        ([snap(3), omitted("terminal.printed"), snap(4), snap(5), snap(6)], [(3, 5)]),
        ([snap(3), omitted("shell.printed"), snap(4), snap(5), snap(6)], []),
    ],
)
def test_a_command_counts_from_the_snapshot_before_it_to_one_after_it(
    events: list[Event], expected: list[tuple[int, int]]
) -> None:
    entries = [Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(events, 1)]
    assert spans(entries, "run_1", before=2, now=9) == expected
