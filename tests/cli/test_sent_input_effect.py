"""Commands print the effect of an input: the run, and whether the agent received it."""

from collections.abc import Iterator

import pytest

from tests.cli.attached_users import ServerHome, running_server
from tests.cli.project_with_failing_test import call

WRITES = {"calls": [call("write_file", path=f"{name}.txt", content="x\n") for name in "abcdefg"]}
FINISHES = {"calls": [call("finish", title="Done", summary="It is written.")]}
SLEEPS = {"text": "I wait.", "calls": [call("bash", command="sleep 600", timeout_s=600)]}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHome]:
    with running_server() as opened:
        yield opened


def test_a_cancel_names_messages_that_the_agent_did_not_get(server: ServerHome) -> None:
    waits = {"calls": [call("bash", command="sleep 600", timeout_s=600)]}
    id = server.new(waits, {"text": "Well then.", "times": 10}, prompt="Begin")
    server.until(id, "running")
    server.hutch("sessions", "send", id, "Hurry up")
    result = server.hutch("sessions", "cancel", id).stdout
    assert "The agent did not get: 'Hurry up'. Send again what still applies." in result
    server.until(id, "idle")


def test_a_message_is_delivered_or_queued(server: ServerHome) -> None:
    id = server.new(SLEEPS, SLEEPS, {"text": "Well then.", "times": 10})
    server.until(id, "idle", "parked")
    name = id[-6:]
    first = server.hutch("sessions", "send", id, "Begin").stdout
    assert first in (
        f"Delivered: {name} works on it as a prompt.\n",
        "Queued as a prompt, at position 1.\n",
    )
    server.until(id, "running")
    received = f"the agent of {name} is running and gets it before its next step.\n"
    for place in (1, 2):
        result = server.hutch("sessions", "send", id, "Hurry").stdout
        assert result == f"Queued, at position {place}: {received}"
    assert server.hutch("sessions", "send", id, "--prompt", "Later").stdout == (
        f"Queued as a prompt, after the current work of {name}.\n"
    )


def test_a_cancel_without_a_run_says_so(server: ServerHome) -> None:
    id = server.new({"text": "Hello."})
    server.until(id, "idle", "parked")
    result = server.hutch("sessions", "cancel", id).stdout
    assert result.startswith("Nothing was cancelled: no run was active or queued. ")
