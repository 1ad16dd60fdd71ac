"""The marks for how a candidate works with the AI."""

from hutch.domain.events import Entry, Event, FileChanged, MessageSent, RanTests, RunQueued
from hutch.domain.ids import new_session_id
from hutch.flows.interviews.candidate_ai_skill_marks import MEANINGS, Mark, MarkName, prompt_marks

CANDIDATE, OTHER = "usr_candidate", "usr_other"
SESSION = new_session_id()


def log(*events: tuple[int, Event]) -> list[Entry]:
    """Entries at these seconds."""
    return [Entry(SESSION, seq, at_s * 1000, event, "") for seq, (at_s, event) in enumerate(events, 1)]


def prompt(text: str, by: str = CANDIDATE) -> RunQueued:
    return RunQueued(run_id="run_1", prompt=text, by=by)


def ran_tests(who: str) -> RanTests:
    return RanTests(run_id="", command="pytest", ok=True, passed=1, failed=0, skipped=0, by=who)


def changed(path: str, by: str) -> FileChanged:
    return FileChanged(path=path, kind="modified", by=by)


def mark(entries: list[Entry], name: MarkName) -> Mark:
    return next(each for each in prompt_marks(entries, CANDIDATE) if each.name == name)


def test_without_prompts_nothing_is_judged() -> None:
    marks = prompt_marks([], CANDIDATE)
    assert [each.name for each in marks] == list(MEANINGS)
    assert {each.points for each in marks} == {None}


def test_a_prompt_with_goal_context_and_constraint_is_linked() -> None:
    entries = log(
        (
            1,
            prompt("test_login in auth.py fails with KeyError. It should return None, without a try."),
        ),
        (2, prompt("ok")),
        (3, prompt("go on")),
        (4, prompt("more", OTHER)),
    )
    for name in ("goal", "context", "constraint"):
        assert mark(entries, name) == Mark(name, 1, (1,), "1 of 3 prompts.")


def test_messages_to_a_working_agent_count_too() -> None:
    entries = log((1, MessageSent(author="user", text="Why is this O(n)?", by=CANDIDATE)))
    assert mark(entries, "understanding").points == 2
    assert mark(log((1, MessageSent(author="agent", text="Why?", by=""))), "understanding").points is None


def test_a_test_run_soon_after_a_change_of_the_ai_verifies_it() -> None:
    entries = log((10, changed("a.py", "agent")), (60, ran_tests(CANDIDATE)))
    assert mark(entries, "verification") == Mark("verification", 2, (2,), "1 of 1 changes of the AI.")


def test_late_runs_and_runs_of_others_verify_nothing() -> None:
    late = log((10, changed("a.py", "agent")), (400, ran_tests(CANDIDATE)))
    assert mark(late, "verification").points == 0
    others = log((10, changed("a.py", "agent")), (20, ran_tests("agent")), (30, changed("b.py", CANDIDATE)))
    assert mark(others, "verification").points == 0


def test_an_edit_of_the_same_file_verifies_only_that_one() -> None:
    entries = log(
        (10, changed("a.py", "agent")),
        (11, changed("b.py", "agent")),
        (12, changed("c.py", "agent")),
        (20, changed("a.py", CANDIDATE)),
    )
    assert mark(entries, "verification") == Mark("verification", 1, (4,), "1 of 3 changes of the AI.")


def test_the_first_prompt_cannot_push_back() -> None:
    assert mark(log((1, prompt("That is wrong."))), "pushback").points is None
    entries = log((1, prompt("Sort it")), (2, prompt("Are you sure? That still fails for empty lists.")))
    assert mark(entries, "pushback") == Mark("pushback", 1, (2,), "1 of 1 later prompts.")
