"""What a run was started with is the same when it is read back."""

from hutch.agent.limits import RunLimits
from hutch.domain.events import RunStarted, from_json, to_json
from hutch.flows.terms import Terms

TERMS = Terms(("example.org",), RunLimits(7, 8, 9.5, 10.0), "/tmp/tape.json", False, "Ada <ada@example.org>")


def test_terms_come_back_from_the_log() -> None:
    started = RunStarted(run_id="run_1", prompt="Go.", persona="engineer", model="m", **TERMS.fields())
    read = from_json(to_json(started), started.type)
    assert isinstance(read, RunStarted)
    assert Terms.of(read) == TERMS


def test_a_log_of_an_older_hutch_asks_for_nothing() -> None:
    assert Terms.of(RunStarted(run_id="run_1", prompt="Go.", persona="engineer", model="m")) == Terms()
