"""The performer runs the sessions of a server, and gives each run the history before it."""

import pytest

from hutch.domain.events import Entry, Event, RunStarted, SessionOpened, SessionParked, SessionWoken
from hutch.domain.ids import SessionId
from hutch.flows.run_execution.run_performer import woken_since

STARTED = RunStarted(run_id="run_1", prompt="", persona="", model="")
OPENED, PARKED, WOKEN = SessionOpened(), SessionParked(), SessionWoken()


@pytest.mark.parametrize(
    ("events", "are_new"),
    [
        ([OPENED], False),
        ([OPENED, STARTED], False),
        ([OPENED, PARKED, WOKEN], False),  # nobody has used the ones of before
        ([OPENED, STARTED, PARKED, WOKEN], True),
        ([OPENED, STARTED, PARKED, WOKEN, STARTED], False),
    ],
)
def test_shells_are_new_when_the_session_was_woken_since_its_last_run(
    events: list[Event], are_new: bool
) -> None:
    entries = [Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(events, 1)]
    assert woken_since(entries) is are_new
