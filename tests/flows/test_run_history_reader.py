"""The state of a run that is resumed or delivered, read from its log."""

import pytest

from hutch.domain import events
from hutch.domain.change_title import first_line
from hutch.domain.errors import NotFound
from hutch.domain.events import Entry, Event
from hutch.domain.ids import new_session_id
from hutch.flows.run_facts_from_log import proposed_in, read_run_history, start_of


def entries(*each: Event) -> list[Entry]:
    session_id = new_session_id()
    return [Entry(session_id, seq, 0, event, "") for seq, event in enumerate(each, start=1)]


def taken(number: int, reason: str = "after bash") -> Event:
    return events.SnapshotTaken(snapshot=number, tree="", reason=reason)


def started(run_id: str, prompt: str = "Go.\nNow.") -> Event:
    return events.RunStarted(run_id=run_id, prompt=prompt, persona="engineer", model="m")


def ran_tests(run_id: str) -> Event:
    return events.RanTests(run_id=run_id, command="x", ok=False, passed=0, failed=1, skipped=0)


def finished(arguments: str) -> list[Event]:
    call = events.CallMade(id="c", tool="finish", arguments=arguments)
    returned = events.ToolReturned(run_id="run_1", call_id="c", tool="finish", ok=True, text="Done.")
    return [events.ModelReplied(run_id="run_1", turn=1, calls=(call,), finish="calls"), returned]


def test_a_run_has_its_own_snapshots_and_its_session_the_first() -> None:
    log = entries(taken(1), started("run_1"), taken(2), taken(3), started("run_2"), taken(4))
    found = read_run_history(log)
    assert (found.started.run_id, found.start, found.first, found.last) == ("run_2", 1, 3, 4)
    log[4:4] = entries(taken(3, "before the run"))
    one = read_run_history([*log, *entries(ran_tests("run_2"), *finished('{"title": "Two"}'))], "run_1")
    assert (one.first, one.last, one.tests, one.title_and_summary) == (1, 3, None, ("Go.", ""))
    with pytest.raises(NotFound):
        read_run_history(log, "run_3")


def test_a_session_without_a_run_has_a_start_and_changes_all_the_same() -> None:
    proposed = events.ChangeProposed(change_id="chg_1", branch="b", base="m", commit="c", title="t", url="u")
    assert (start_of(entries(taken(4), taken(5), proposed)), proposed_in(entries(proposed))) == (
        4,
        ("c",),
    )
    assert (start_of([]), proposed_in([])) == (None, ())


def test_tests_count_until_something_changes() -> None:
    log = entries(taken(1), started("run_1"), ran_tests("run_1"), taken(2, "after run_tests"))
    assert read_run_history(log).tested
    assert read_run_history([*log, *entries(taken(2))]).tested  # the same once more
    assert not read_run_history([*log, *entries(taken(3))]).tested


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (finished('{"title": "A", "summary": "B"}'), ("A", "B")),
        (finished('{"title": "A"}'), ("A", "")),
        (finished("{broken"), ("Go.", "")),
        (finished("[]"), ("Go.", "")),
        ([events.ModelReplied(run_id="run_1", turn=1, text="So.")], ("Go.", "So.")),
        ([], ("Go.", "")),
    ],
)
def test_what_it_finished_with(last: list[Event], said: tuple[str, str]) -> None:
    assert read_run_history(entries(taken(1), started("run_1"), *last)).title_and_summary == said


def test_a_long_prompt_is_cut_and_an_empty_one_is_named() -> None:
    assert (len(first_line("x" * 100)), first_line(" \n")) == (72, "A change")
