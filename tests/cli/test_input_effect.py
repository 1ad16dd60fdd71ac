"""Commands print the effect of an input: the run, the files, and whether the agent received it."""

from collections.abc import Iterator

import pytest

from hutch.cli import exit_codes
from tests.cli.running import call
from tests.cli.visiting import House, open_house

WRITES = {"calls": [call("write_file", path=f"{name}.txt", content="x\n") for name in "abcdefg"]}
FINISHES = {"calls": [call("finish", title="Done", summary="It is written.")]}
SLEEPS = {"text": "I wait.", "calls": [call("bash", command="sleep 60")]}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def test_undo_names_the_run_and_the_files(house: House) -> None:
    id = house.new(WRITES, FINISHES, prompt="Write \x1b[1mmany")
    house.until(id, "idle")
    told = house.hutch("undo", id)
    assert told.returncode == exit_codes.OK, told.stderr
    assert told.stdout == (
        "Undone: the run of 'Write \\\\x1b[1mmany'. Files are as they were in snapshot 1: "
        f"a.txt, b.txt, c.txt, d.txt, e.txt and 2 more. {id[-6:]} is idle.\n"
    )
    again = house.hutch("undo", id)
    assert again.stdout == f"There is no run to undo, so nothing was changed. {id[-6:]} is idle.\n"


def test_a_message_is_delivered_or_queued(house: House) -> None:
    id = house.new(SLEEPS, SLEEPS, {"text": "Well then.", "times": 10})
    house.until(id, "idle", "parked")
    name = id[-6:]
    first = house.hutch("sessions", "send", id, "Begin").stdout
    assert first in (
        f"Delivered: {name} works on it as a prompt.\n",
        "Queued as a prompt, at position 1.\n",
    )
    house.until(id, "running")
    heard = f"the agent of {name} is running and gets it before its next step.\n"
    for place in (1, 2):
        told = house.hutch("sessions", "send", id, "Hurry").stdout
        assert told == f"Queued, at position {place}: {heard}"
    assert house.hutch("sessions", "send", id, "--prompt", "Later").stdout == (
        f"Queued as a prompt, after the current work of {name}.\n"
    )


def test_a_cancel_without_a_run_says_so(house: House) -> None:
    id = house.new({"text": "Hello."})
    house.until(id, "idle", "parked")
    told = house.hutch("sessions", "cancel", id).stdout
    assert told.startswith("Nothing was cancelled: no run was active or queued. ")


def test_a_cancel_names_messages_that_the_agent_did_not_get(house: House) -> None:
    waits = {"calls": [call("bash", command="sleep 600", timeout_s=600)]}
    id = house.new(waits, {"text": "Well then.", "times": 10}, prompt="Begin")
    house.until(id, "running")
    house.hutch("sessions", "send", id, "Hurry up")
    told = house.hutch("sessions", "cancel", id).stdout
    assert "The agent did not get: 'Hurry up'. Send again what still applies." in told
    house.until(id, "idle")
