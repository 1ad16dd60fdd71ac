"""The frames of a run come from its log, with one end: the last attempt to deliver it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.events import (
    DeliveryEnded,
    DeliveryRequested,
    Entry,
    Event,
    MessageSent,
    RunEnded,
    RunStarted,
    StepReached,
)
from hutch.domain.ids import SessionId
from hutch.gateway.stream.prompt_to_pull_request_frames import Lookahead, RunFrames

SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")
ENDED = RunEnded(run_id="run_1", outcome="done")
FAILED = DeliveryEnded(run_id="run_1", outcome="failed", reason="It was down.")
PROPOSED = DeliveryEnded(run_id="run_1", outcome="proposed", url="https://forge.example/1")
REQUESTED = DeliveryRequested(run_id="run_1", by="ada")
OTHERS = (
    RunEnded(run_id="run_2", outcome="done"),
    DeliveryEnded(run_id="run_2", outcome="failed"),
    DeliveryRequested(run_id="run_2", by="ada"),
    MessageSent(author="user", text="Hello."),
)


def log_of(*events: Event) -> list[Entry]:
    return [Entry(SESSION, seq, seq, event, "", b"") for seq, event in enumerate(events, 1)]


def started(*, deliver: bool = True) -> RunStarted:
    return RunStarted(run_id="run_1", prompt="Go.", model="scripted:x", persona="", deliver=deliver)


def released(entries: Sequence[Entry], newest: int) -> list[tuple[Entry, bool]]:
    lookahead = Lookahead("run_1", newest)
    return [each for entry in entries for each in lookahead.next(entry)]


def frames(entries: Sequence[Entry], newest: int) -> list[dict[str, Any]]:
    run_frames = RunFrames("run_1")
    return [
        frame
        for entry, again in released(entries, newest)
        for _, frame in run_frames.frames(entry, again=again)
    ]


def attempts_after(entries: Sequence[Entry], place: int) -> bool:
    """True if another attempt follows an entry, by looking at all that comes after it."""
    asked = False
    for event in (each.event for each in entries[place + 1 :]):
        if getattr(event, "run_id", "") == "run_1":
            if isinstance(event, DeliveryEnded):
                return True
            if isinstance(event, DeliveryRequested | RunEnded):
                asked = isinstance(event, DeliveryRequested)
    return asked


@given(st.lists(st.sampled_from([FAILED, PROPOSED, REQUESTED, ENDED, *OTHERS]), max_size=12))
def test_each_end_knows_in_one_pass_whether_another_attempt_follows(later: list[Event]) -> None:
    entries = log_of(started(), ENDED, *later)
    found = {entry.seq: again for entry, again in released(entries, len(entries))}
    first_end = entries[1].seq
    ends = [each for each in entries if each.event in (FAILED, PROPOSED) or each.seq == first_end]
    assert {each.seq: found[each.seq] for each in ends} == {
        each.seq: attempts_after(entries, each.seq - 1) for each in ends
    }
    assert list(found) == sorted(found)


@pytest.mark.parametrize("newest", [1, 2, 3, 5, 6])
def test_a_delivery_that_succeeds_later_ends_the_story(newest: int) -> None:
    entries = log_of(
        started(), ENDED, StepReached(step="pushing", message="Pushing..."), FAILED, REQUESTED, PROPOSED
    )
    outcomes = [each["outcome"] for each in frames(entries, newest) if each["type"] == "done"]
    assert outcomes == (["done"] if newest >= 5 else ["not_delivered"])


def test_a_run_without_delivery_ends_the_stream_unless_one_was_requested_since() -> None:
    whole = log_of(started(deliver=False), ENDED, *OTHERS)
    assert frames(whole, len(whole))[-1]["type"] == "done"
    asked = log_of(started(deliver=False), ENDED, *OTHERS, REQUESTED)
    assert frames(asked, len(asked))[-1]["type"] == "usage"


def test_entries_after_the_start_of_reading_are_sent_at_once() -> None:
    entries = log_of(started(), ENDED, FAILED)
    lookahead = Lookahead("run_1", 1)
    assert [lookahead.next(entry) for entry in entries] == [[(entry, False)] for entry in entries]


def test_little_is_held_back_of_a_long_log() -> None:
    entries = log_of(started(), ENDED, FAILED, *[OTHERS[3]] * 10_000, PROPOSED)
    lookahead = Lookahead("run_1", len(entries))
    held = 0
    for entry in entries:
        lookahead.next(entry)
        held = max(held, len(lookahead.held))
    assert held == 1
