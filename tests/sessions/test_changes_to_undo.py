"""The target of an undo, read from the log."""

import pytest

from hutch.domain import events
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.events import Entry, Event, FileChanged
from hutch.domain.ids import SessionId
from hutch.sessions.changes_to_undo import UndoTarget, find_last_run
from hutch.sessions.state_before_last_run import effective_entries
from hutch.sessions.step_changes_to_undo import find_step

ADA, BOB = "usr_ada", "usr_bob"


def entries(*log: Event) -> list[Entry]:
    return [Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(log, 1)]


def changed(path: str, by: str = "", cause: str = "tool", **more: object) -> FileChanged:
    fields = {"kind": "modified", "by": by, "cause": cause, "previous_snapshot": 1, "snapshot": 2, **more}
    return FileChanged.model_validate({"path": path, **fields})


def run(number: int) -> Event:
    return events.RunStarted(run_id=f"run_{number}", prompt=f"Task {number}", persona="", model="")


def ended(number: int) -> Event:
    return events.RunEnded(run_id=f"run_{number}", outcome="done")


def taken(number: int, reason: str = "after bash") -> Event:
    return events.SnapshotTaken(snapshot=number, tree="", reason=reason)


def started(call_id: str = "", shell: str = "agent", by: str = AGENT, terminal: str = "") -> Event:
    fields = {"terminal": terminal} if terminal else {"shell": shell}
    return events.CommandStarted(command="make", cwd="/", by=by, call_id=call_id, **fields)


def listed(target: UndoTarget | None) -> list[tuple[str, bool]]:
    assert target is not None
    return [(getattr(each.event, "path", "*"), each.is_clear) for each in target.changes]


def test_a_run_has_the_agents_changes_until_the_next_run() -> None:
    log = entries(
        changed("before", AGENT),
        run(1),
        changed("tool", AGENT),
        changed("mine", ADA, "request"),
        changed("perhaps", cause="job", possible_authors=(AGENT, ADA)),
        changed("people", cause="job", possible_authors=(ADA, BOB)),
        changed("nobody", cause="unknown"),
        ended(1),
        changed("late job", AGENT, "job"),
        changed("nobody later", cause="unknown"),
        changed("undone", AGENT, "undo"),
    )
    assert listed(find_last_run(log)) == [
        ("tool", True),
        ("perhaps", False),
        ("nobody", False),
        ("late job", True),
    ]


def test_an_earlier_run_ends_with_the_next_that_was_undone() -> None:
    log = [run(1), changed("one", AGENT), ended(1), run(2), changed("two", AGENT), ended(2)]
    undone = entries(*log, events.SessionRewound(to_seq=3, snapshot=1, input=1))
    assert listed(find_last_run(entries(*log))) == [("two", True)]
    assert listed(find_last_run(undone)) == [("one", True)]


JOBS, NO_JOBS = events.JobsDetached(shell="agent"), events.JobsEnded(shell="agent")
YIELDED = events.CommandYielded(shell="agent", command="x", background_id="bg_1", by=AGENT)


@pytest.mark.parametrize("job", [JOBS, YIELDED])
def test_commands_beside_a_job_of_an_earlier_run_are_not_clear(job: Event) -> None:
    log = entries(
        run(1),
        job,
        ended(1),
        run(2),
        started("c1"),
        changed("by bash", AGENT, call_id="c1"),
        changed("by an edit", AGENT, call_id="c2"),
        changed("by a job", AGENT, "job"),
    )
    assert listed(find_last_run(log)) == [("by bash", False), ("by an edit", True), ("by a job", False)]


def test_a_job_counts_until_the_snapshots_after_its_end() -> None:
    log = entries(
        run(1), JOBS, ended(1), run(2), changed("a", AGENT, "job"), NO_JOBS, changed("b", AGENT, "job")
    )
    more = [taken(3), taken(4), changed("c", AGENT, "job")]
    found = listed(find_last_run([*log, *entries(*[run(0)] * len(log), *more)[len(log) :]]))
    assert found == [("a", False), ("b", False), ("c", True)]


def test_jobs_that_ended_or_were_parked_before_are_in_nobodys_way() -> None:
    for gone in (NO_JOBS, events.SessionParked(reason="")):
        log = entries(run(1), JOBS, gone, ended(1), run(2), changed("a", AGENT, "job"))
        assert listed(find_last_run(log)) == [("a", True)]


def test_a_command_has_its_changes_until_the_next_one_of_its_shell() -> None:
    log = entries(
        started(shell="main", by=ADA),
        changed("one", ADA, "command", source="main"),
        changed("others", BOB, "command", source="main"),
        changed("elsewhere", ADA, "command", source="2"),
        changed("perhaps", cause="command", source="main", possible_authors=(ADA, BOB)),
        events.CommandYielded(shell="main", command="make", background_id="bg_1", by=ADA),
        started(shell="main", by=ADA),
        changed("next", ADA, "command", source="main"),
        changed("background", ADA, "job", source="bg_1"),
    )
    assert listed(find_step(log, 1)) == [("one", True), ("perhaps", False), ("background", True)]
    assert listed(find_step(log, 6)) == listed(find_step(log, 1))


def test_a_command_of_a_terminal_is_a_step() -> None:
    log = entries(
        started(terminal="1", by=ADA),
        events.CommandEnded(terminal="1", command="make", cwd="/", exit_code=0, duration_s=0, by=ADA),
        changed("a", ADA, "terminal", source="1"),
        started(terminal="1", by=ADA),
        changed("b", ADA, "terminal", source="1"),
    )
    assert listed(find_step(log, 1)) == listed(find_step(log, 2)) == [("a", True)]
    assert find_step(log, 1).title == "the command 'make'"


def test_a_tool_call_has_the_changes_with_its_id() -> None:
    called = events.ToolCalled(run_id="run_1", call_id="c1", tool="bash", arguments="{}")
    result = events.ToolReturned(run_id="run_1", call_id="c1", tool="bash", ok=True, text="")
    log = entries(
        called,
        started("c1"),
        changed("a", AGENT, call_id="c1"),
        changed("b", AGENT, call_id="c2"),
        result,
        called,
        changed("again", AGENT, call_id="c1"),
    )
    assert [listed(find_step(log, seq)) for seq in (1, 2, 5)] == [[("a", True)]] * 3
    assert listed(find_step(log, 6)) == [("again", True)]


def test_a_command_that_was_alone_at_work_is_clear_beside_jobs_of_earlier_runs() -> None:
    log = entries(
        run(1),
        events.JobsDetached(shell="agent"),
        ended(1),
        run(2),
        started("c1"),
        changed("alone", AGENT, call_id="c1", alone=True),
        changed("perhaps", AGENT, call_id="c1"),
        changed("job", AGENT, "job", alone=True),
    )
    assert listed(find_last_run(log)) == [("alone", True), ("perhaps", False), ("job", False)]


def test_redone_entries_count_again_in_their_order() -> None:
    log = entries(
        *(run(1), ended(1), run(2), ended(2)),
        events.SessionRewound(to_seq=2, snapshot=1, input=1),
        events.SessionRewound(to_seq=0, snapshot=1, input=2),
        events.SessionRedone(undone=6),
        events.SessionRedone(undone=5),
        events.SessionRedone(undone=99, title="of a step"),
    )
    assert [each.seq for each in effective_entries(log[:6])] == []
    assert [each.seq for each in effective_entries(log[:7])] == [1, 2]
    assert [each.seq for each in effective_entries(log)] == [1, 2, 3, 4, 9]
