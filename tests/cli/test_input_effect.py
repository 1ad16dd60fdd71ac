"""Commands print the effect of an input: the run, the files, and whether the agent received it."""

import json
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
    result = house.hutch("undo", id)
    assert result.returncode == exit_codes.OK, result.stderr
    assert result.stdout == (
        "Undone: the run of 'Write \\\\x1b[1mmany'. Files changed: "
        f"a.txt, b.txt, c.txt, d.txt, e.txt and 2 more. {id[-6:]} is idle.\n"
    )
    again = house.hutch("undo", id)
    assert again.stdout == f"There is no run to undo, so nothing was changed. {id[-6:]} is idle.\n"
    redone = house.hutch("redo", id)
    assert redone.stdout == (
        "Taken back: the undo of the last run. Files changed: "
        f"a.txt, b.txt, c.txt, d.txt, e.txt and 2 more. {id[-6:]} is idle.\n"
    )
    again = house.hutch("redo", id)
    assert again.returncode != exit_codes.OK
    assert "There is nothing to redo" in again.stderr


def test_undo_takes_one_step_and_says_what_others_changed(house: House) -> None:
    id = house.new(WRITES, FINISHES, prompt="Write")
    house.until(id, "idle")
    entries = [json.loads(line) for line in house.hutch("log", id, "--json").stdout.splitlines()]
    step = next(each["seq"] for each in entries if each["event"].get("path") == "c.txt")
    undone = house.hutch("undo", id, "--step", str(step))
    assert undone.stdout == f"Undone: the change of c.txt. Files changed: c.txt. {id[-6:]} is idle.\n"
    (house.place / "b.txt").write_text("mine\n")
    written = house.hutch("files", "put", id, str(house.place / "b.txt"))
    assert written.returncode == exit_codes.OK, written.stderr
    refused = house.hutch("undo", id)
    assert refused.returncode != exit_codes.OK
    assert "b.txt (" in refused.stderr and "--merge" in refused.stderr
    both = house.hutch("undo", id, "--merge", "--keep")
    assert "Use only one of --merge, --keep and --discard-others." in both.stderr
    kept = house.hutch("undo", id, "--keep")
    assert "Files changed: a.txt, d.txt, e.txt, f.txt, g.txt. Left as they are: b.txt." in kept.stdout


def test_a_cancel_names_messages_that_the_agent_did_not_get(house: House) -> None:
    waits = {"calls": [call("bash", command="sleep 600", timeout_s=600)]}
    id = house.new(waits, {"text": "Well then.", "times": 10}, prompt="Begin")
    house.until(id, "running")
    house.hutch("sessions", "send", id, "Hurry up")
    result = house.hutch("sessions", "cancel", id).stdout
    assert "The agent did not get: 'Hurry up'. Send again what still applies." in result
    house.until(id, "idle")


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
        result = house.hutch("sessions", "send", id, "Hurry").stdout
        assert result == f"Queued, at position {place}: {heard}"
    assert house.hutch("sessions", "send", id, "--prompt", "Later").stdout == (
        f"Queued as a prompt, after the current work of {name}.\n"
    )


def test_a_cancel_without_a_run_says_so(house: House) -> None:
    id = house.new({"text": "Hello."})
    house.until(id, "idle", "parked")
    result = house.hutch("sessions", "cancel", id).stdout
    assert result.startswith("Nothing was cancelled: no run was active or queued. ")
