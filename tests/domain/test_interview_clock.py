"""The clock of an interview: it stands in pauses and while the candidate is offline, up to an allowance."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from hutch.domain.ids import new_session_id
from hutch.domain.interview import Interview, InterviewClock
from hutch.domain.interview_plan import InterviewPlan

MINUTE = 60_000
ALLOWED = 10 * MINUTE


def test_it_counts_only_while_it_runs() -> None:
    clock = InterviewClock().started(1000)
    assert clock.elapsed_ms(1000 + MINUTE, ALLOWED) == MINUTE
    stopped = clock.stopped(1000 + MINUTE, ALLOWED)
    assert stopped.elapsed_ms(1000 + 9 * MINUTE, ALLOWED) == MINUTE
    again = stopped.started(1000 + 9 * MINUTE)
    assert again.elapsed_ms(1000 + 10 * MINUTE, ALLOWED) == 2 * MINUTE


def test_a_wall_clock_that_is_set_back_takes_no_time_away() -> None:
    clock = InterviewClock(ran_ms=5 * MINUTE).started(100 * MINUTE)
    assert clock.elapsed_ms(90 * MINUTE, ALLOWED) == 5 * MINUTE


@pytest.mark.parametrize(("offline", "credited"), [(3, 3), (10, 10), (25, 10)])
def test_time_offline_is_credited_up_to_the_allowance(offline: int, credited: int) -> None:
    clock = replace(InterviewClock().started(0), offline_since_ms=5 * MINUTE)
    back_ms = (5 + offline) * MINUTE
    assert clock.elapsed_ms(back_ms, ALLOWED) == (5 + offline - credited) * MINUTE
    back = clock.online(back_ms, ALLOWED)
    assert back.credited_ms == credited * MINUTE
    assert back.elapsed_ms(back_ms + MINUTE, ALLOWED) == (6 + offline - credited) * MINUTE
    # A second time offline has only the rest of the allowance.
    second = replace(back, offline_since_ms=back_ms + MINUTE)
    later_ms = back_ms + 60 * MINUTE
    assert second.online(later_ms, ALLOWED).credited_ms == ALLOWED


def test_a_pause_while_offline_credits_the_time_until_then() -> None:
    clock = replace(InterviewClock().started(0), offline_since_ms=MINUTE).stopped(4 * MINUTE, ALLOWED)
    assert (clock.ran_ms, clock.credited_ms, clock.offline_since_ms) == (MINUTE, 3 * MINUTE, None)


def an_interview(**plan: object) -> Interview:
    made = InterviewPlan.model_validate({"title": "x", "questions": [{"id": "a"}, {"id": "b"}], **plan})
    return Interview(id=new_session_id(), owner="usr_1", plan=made, minutes=40)


def test_the_clock_runs_again_when_no_more_time_offline_is_credited() -> None:
    clock = replace(InterviewClock().started(0), offline_since_ms=5 * MINUTE)
    interview = replace(an_interview(max_credit_minutes=10), clock=clock)
    at = [3, 6, 14, 16]
    assert [interview.counts_time(each * MINUTE) for each in at] == [True, False, False, True]
    assert not replace(interview, clock=clock.stopped(6 * MINUTE, ALLOWED)).counts_time(20 * MINUTE)


def test_extra_time_counts_for_the_interview_and_for_each_question() -> None:
    interview = replace(an_interview(extra_time_percent=50), question_minutes=10)
    interview = replace(interview, clock=InterviewClock(question_from_ms=2 * MINUTE).started(0))
    assert interview.remaining_ms(0) == 60 * MINUTE
    assert interview.question_remaining_ms(5 * MINUTE) == 12 * MINUTE
    assert not interview.is_over(16 * MINUTE)
    assert interview.is_over(17 * MINUTE)
    assert replace(interview, question_minutes=None).question_remaining_ms(0) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"levels": []},
        {"levels": ["pair", "pair"]},
        {"first_level": "copilot", "levels": ["pair"]},
        {"questions": [{"id": "a"}, {"id": "a"}]},
        {"questions": []},
        {"questions": [{"id": "../etc"}]},
        {"title": ""},
        {"title": "two\nlines"},
        {"extra_time_percent": -1},
        {"unknown": 1},
    ],
)
def test_wrong_plans_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        an_interview(**wrong)
