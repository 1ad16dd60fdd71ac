"""The authors at work when a file changed."""

import time

from hutch.domain.current_actor_and_author import AGENT, Actor, current_actor
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    CommandYielded,
    Event,
    JobsDetached,
    JobsEnded,
)
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.snapshot_change_events import Attribution
from hutch.snapshots.disk_walk import TICK_NS


def started(by: str, shell: str = "main", call_id: str = "") -> Event:
    return CommandStarted(shell=shell, command="x", cwd="/", by=by, call_id=call_id)


def ended(shell: str = "main", id: str | None = None) -> Event:
    return CommandEnded(shell=shell, command="x", cwd="/", exit_code=0, duration_s=0, background_id=id)


def now_ns() -> int:
    """A time stamp that a file would get now; the clock of files has ticked since the last call."""
    time.sleep(2 * TICK_NS / 1e9)
    found = time.time_ns() - TICK_NS
    time.sleep(2 * TICK_NS / 1e9)
    return found | 1  # no whole second


def test_a_command_counts_from_its_start_to_its_end() -> None:
    activity = Activity()
    before = now_ns()
    activity.note(started("u1"))
    during = now_ns()
    activity.note(ended())
    after = now_ns()
    assert [activity.at(each) for each in (before, during, after)] == [
        [],
        [Actor("u1", "command", "main")],
        [],
    ]
    assert activity.between(before, after) == [Actor("u1", "command", "main")]
    assert not activity.is_active
    activity.forget_before(after)
    assert activity.between(before, after) == []


def test_a_command_in_the_background_is_a_job() -> None:
    activity = Activity()
    activity.note(started(AGENT, "agent", "c1"))
    assert activity.runs_commands
    activity.note(CommandYielded(shell="agent", command="x", background_id="bg_1", by=AGENT))
    assert activity.is_active and not activity.runs_commands
    assert activity.at(now_ns()) == [Actor(AGENT, "job", "bg_1", "c1")]
    activity.note(ended("agent", "bg_1"))
    assert activity.at(now_ns()) == []


def test_jobs_count_for_everyone_who_may_have_left_them() -> None:
    activity = Activity()
    activity.note(started("u1"))
    activity.note(JobsDetached(shell="main"))
    activity.note(ended())
    assert activity.at(now_ns()) == [Actor("u1", "job", "main")]
    activity.note(started("u2"))
    activity.note(ended())
    assert activity.at(now_ns()) == [Actor("u1", "job", "main"), Actor("u2", "job", "main")]
    activity.note(JobsEnded(shell="main"))
    assert activity.at(now_ns()) == []


def test_typing_counts_until_the_prompt() -> None:
    activity = Activity()
    activity.typed("1", "u1")
    activity.typed("1", "u2")
    activity.typed("2", "u3")
    activity.prompted("1")
    assert activity.at(now_ns()) == [Actor("u3", "terminal", "2")]


def test_marked_commands_of_a_terminal() -> None:
    activity = Activity()
    activity.note(CommandStarted(terminal="1", command="x", cwd="/", by="u1"))
    assert activity.at(now_ns()) == [Actor("u1", "terminal", "1")]
    activity.note(JobsDetached(terminal="1"))
    activity.note(CommandEnded(terminal="1", command="x", cwd="/", exit_code=0, duration_s=0))
    assert activity.at(now_ns()) == [Actor("u1", "job", "1")]


def test_work_of_the_current_actor() -> None:
    activity, actor = Activity(), Actor(AGENT, "tool", "c1", "c1")
    with activity.working(actor):
        assert (current_actor(), activity.at(now_ns())) == (actor, [actor])
    assert (current_actor(), activity.at(now_ns())) == (Actor(), [])


def test_a_file_system_with_whole_seconds() -> None:
    activity = Activity()
    activity.note(started("u1"))
    assert activity.at(time.time_ns() // 1_000_000_000 * 1_000_000_000) == [Actor("u1", "command", "main")]


def test_one_author_is_named_and_several_are_possible() -> None:
    one, two = Actor("u1", "command", "main"), Actor("u1", "terminal", "1")
    other = Actor(AGENT, "command", "agent")
    assert Attribution.to([one, two]) == Attribution(two)
    assert Attribution.to([one, other]) == Attribution(Actor(cause="command"), (AGENT, "u1"))
    assert Attribution.to([two, other]) == Attribution(Actor(), (AGENT, "u1"))
    assert Attribution.to([]) == Attribution(Actor())
