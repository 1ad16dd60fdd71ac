"""The state of a run that is delivered again, read from its log."""

from hutch.domain.events import DeliveryEnded, DeliveryRequested, Entry, Event, RunEnded, SessionRewound
from hutch.domain.ids import SessionId
from hutch.flows.run_redelivery import RunRecord, read

ENDED = RunEnded(run_id="run_1", outcome="tests_failing")
FAILED = DeliveryEnded(run_id="run_1", outcome="failed", failing=True)
REQUESTED = DeliveryRequested(run_id="run_1", by="usr_1")
KNOWN = DeliveryRequested(run_id="run_1", by="usr_1", failing=True)


def record_of(*events: Event) -> RunRecord:
    entries = [Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(events, 1)]
    return read(entries, "run_1")


def test_the_first_end_counts_and_the_last_delivery() -> None:
    cancelled = RunEnded(run_id="run_1", outcome="cancelled")
    proposed = DeliveryEnded(run_id="run_1", outcome="proposed")
    assert record_of(ENDED, FAILED, KNOWN, cancelled, proposed) == RunRecord(ENDED, proposed, False, True)


def test_a_requested_delivery_is_pending_until_tried_and_its_consent_stays() -> None:
    assert record_of(ENDED, FAILED) == RunRecord(ENDED, FAILED)
    assert record_of(ENDED, FAILED, REQUESTED) == RunRecord(ENDED, FAILED, requested=True)
    assert record_of(ENDED, FAILED, KNOWN, FAILED, REQUESTED) == RunRecord(
        ENDED, FAILED, requested=True, failing=True
    )


def test_a_cancellation_withdraws_the_consent() -> None:
    cancelled = DeliveryEnded(run_id="run_1", outcome="failed", failing=True, cancelled=True)
    assert record_of(ENDED, FAILED, KNOWN, cancelled) == RunRecord(ENDED, cancelled)
    assert record_of(ENDED, FAILED, KNOWN, cancelled, REQUESTED) == RunRecord(
        ENDED, cancelled, requested=True
    )


def test_other_runs_and_what_was_undone_do_not_count() -> None:
    other = DeliveryRequested(run_id="run_2", by="usr_1", failing=True)
    assert record_of(ENDED, other) == RunRecord(ENDED)
    assert record_of(ENDED, KNOWN, FAILED, SessionRewound(to_seq=0, snapshot=1)) == RunRecord()
