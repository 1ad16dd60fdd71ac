"""A waiting run that is cancelled keeps the outcome of the work that it has done."""

from hutch.domain.events import DeliveryEnded, Entry, Event, RunEnded
from hutch.domain.ids import SessionId
from hutch.sessions.waiting_run_cancellation import CANCELLED, OVER, first_end, undelivered

FAILED = DeliveryEnded(run_id="run_1", outcome="failed", reason="The tests fail.", failing=True)


def entries(*events: Event) -> list[Entry]:
    return [Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(events, 1)]


def test_failing_tests_stay_reported_however_often_a_run_is_cancelled() -> None:
    first = undelivered(entries(FAILED), "run_1", CANCELLED)
    assert (first.outcome, first.failing, first.cancelled) == ("failed", True, True)
    assert first.reason == "It was cancelled before it was delivered. The tests fail."
    again = undelivered(entries(FAILED, first), "run_1", OVER)
    assert again.reason == "The session was ended before it was delivered. The tests fail."


def test_another_reason_is_not_kept() -> None:
    down = DeliveryEnded(run_id="run_1", outcome="failed", reason="GitHub is down.")
    for before in ((), (down,), (FAILED, down), (FAILED.model_copy(update={"run_id": "run_2"}),)):
        result = undelivered(entries(*before), "run_1", CANCELLED)
        assert (result.reason, result.failing) == ("It was cancelled before it was delivered.", False)


def test_the_first_end_of_a_run_counts() -> None:
    done, cancelled = (RunEnded(run_id="run_1", outcome=outcome) for outcome in ("done", "cancelled"))
    other = RunEnded(run_id="run_2", outcome="failed")
    assert first_end(entries(other, done, cancelled), "run_1") == done
    assert first_end(entries(other), "run_1") is None
