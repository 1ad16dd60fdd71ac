"""The facts of an assessment, from a log."""

import pytest

from hutch.domain.events import Entry, Event, FileChanged, MessageSent, ModelReplied, RanTests, ToolReturned
from hutch.domain.ids import new_session_id
from hutch.flows.interviews.question_assessment_facts import AiUse, AssessedRun, Pause, assess_question

CANDIDATE, ASSESSOR = "usr_candidate", "usr_assessor"
SESSION = new_session_id()


def log(*events: tuple[int, Event]) -> list[Entry]:
    """Entries at these seconds."""
    return [Entry(SESSION, seq, at_s * 1000, event, "") for seq, (at_s, event) in enumerate(events, 1)]


def ran(passed: int, failed: int, by: str = CANDIDATE, *, cancelled: bool = False) -> RanTests:
    run = RanTests(run_id="", command="", ok=not failed, passed=passed, failed=failed, skipped=0)
    return run.model_copy(update={"by": by, "cancelled": cancelled})


def changed(by: str, path: str = "a.py") -> FileChanged:
    return FileChanged(path=path, kind="modified", by=by)


def test_an_empty_log_has_no_facts() -> None:
    facts = assess_question([], CANDIDATE)
    assert (facts.tests, facts.first_all_passed_seq, facts.pauses) == ((), None, ())
    assert facts.ai == AiUse(0, 0, 0, 0, None, {}, 0, 0, 0)


def test_test_runs_say_who_ran_them_and_whether_the_ai_had_helped() -> None:
    facts = assess_question(
        log(
            (1, changed(CANDIDATE)),
            (2, ran(1, 3)),
            (3, changed("agent")),
            (4, ran(2, 2, "agent")),
            (5, ran(0, 0, cancelled=True)),
            (6, changed(CANDIDATE)),
            (7, ran(4, 0)),
        ),
        CANDIDATE,
    )
    assert facts.tests == (
        AssessedRun(2, 2000, CANDIDATE, 1, 3, aided=False),
        AssessedRun(4, 4000, "agent", 2, 2, aided=True),
        AssessedRun(7, 7000, CANDIDATE, 4, 0, aided=False),
    )
    assert facts.first_all_passed_seq == 7


def test_a_run_without_tests_is_no_success() -> None:
    assert assess_question(log((1, ran(0, 0))), CANDIDATE).first_all_passed_seq is None


def test_pauses_are_those_of_the_candidate() -> None:
    entries = log(
        (0, changed(CANDIDATE)), (100, changed("agent")), (200, changed(CANDIDATE)), (250, ran(1, 0))
    )
    assert assess_question(entries, CANDIDATE).pauses == (Pause(1, 200, 3),)


def test_the_work_of_the_ai_is_counted() -> None:
    reply = ModelReplied(
        run_id="run_1", turn=1, input_tokens=100, output_tokens=20, cost_usd=0.01, duration_s=2
    )
    facts = assess_question(
        log(
            (1, reply),
            (2, ToolReturned(run_id="run_1", call_id="a", tool="read_file", ok=True, text="")),
            (3, ToolReturned(run_id="run_1", call_id="b", tool="read_file", ok=False, text="")),
            (4, changed("agent", "a.py")),
            (5, changed("agent", "a.py")),
            (6, ran(1, 0, "agent")),
            (7, reply.model_copy(update={"duration_s": 4.0})),
            (8, MessageSent(author="user", text="Thanks", by=ASSESSOR)),
        ),
        CANDIDATE,
    )
    assert facts.ai.cost_usd == pytest.approx(0.02)
    assert facts.ai.average_reply_s == pytest.approx(3)
    assert (facts.ai.replies, facts.ai.input_tokens, facts.ai.output_tokens) == (2, 200, 40)
    assert (facts.ai.calls, facts.ai.failed_calls) == ({"read_file": 2}, 1)
    assert (facts.ai.test_runs, facts.ai.changed_files) == (1, 1)
    assert facts.marks[0].points is None


def test_a_reply_without_a_price_makes_the_cost_unknown() -> None:
    reply = ModelReplied(run_id="run_1", turn=1, cost_usd=0.01)
    unpriced = reply.model_copy(update={"cost_usd": None})
    assert assess_question(log((1, reply), (2, unpriced)), CANDIDATE).ai.cost_usd is None
