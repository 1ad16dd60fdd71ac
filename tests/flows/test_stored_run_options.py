"""The options of a run are in its first event."""

from hutch.domain.events import RunStarted
from hutch.domain.run_limits import RunLimits
from hutch.flows.run_execution.stored_run_options import RunOptions


def test_options_are_fields_of_the_event() -> None:
    limits = RunLimits(7, 8, 9.5, 10.0)
    options = RunOptions(
        ("example.org",), limits, "/tmp/t.json", False, "Ada <ada@example.org>", "it was asked for"
    )
    started = RunStarted(run_id="run_1", prompt="Go.", persona="engineer", model="m", **options.fields())
    assert (started.network, started.record, started.deliver) == (("example.org",), "/tmp/t.json", False)
    assert (started.author, started.model_reason) == ("Ada <ada@example.org>", "it was asked for")
    assert (started.max_turns, started.max_tokens) == (7, 8)
    assert (started.max_cost_usd, started.timeout_s) == (9.5, 10.0)
