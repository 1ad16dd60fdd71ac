"""The summary at the end of a run."""

from typing import Any

from hutch.cli.render.run_summary import RunSummary

ENDED = {"type": "run.ended", "outcome": "done", "turns": 2, "cost_usd": 0.0, "duration_s": 3.0}


def helper(cost: float | None, **more: Any) -> dict[str, Any]:
    return {
        "type": "helper.ended",
        "turns": 4,
        "input_tokens": 1000,
        "output_tokens": 10,
        "cost_usd": cost,
        **more,
    }


def test_the_usage_of_helpers_is_not_hidden_behind_that_of_the_run() -> None:
    summary = RunSummary("ses_1", "/repository")
    for each in (helper(0.5), helper(0.25, cached_tokens=7), ENDED):
        summary.take(each)
    *_, own, theirs = summary.lines("")
    assert own.text == "2 turns, 0 tokens in (0 cached), 0 out, $0.0000, 3.0 s"
    assert theirs.lead + theirs.text == "2 helpers: 8 turns, 2,000 tokens in (7 cached), 20 out, $0.7500"
    assert summary.json("", warnings=[])["helpers"] == {
        "count": 2,
        "turns": 8,
        "input_tokens": 2000,
        "cached_tokens": 7,
        "output_tokens": 20,
        "cost_usd": 0.75,
    }


def test_one_helper_without_a_price_makes_their_cost_unknown() -> None:
    summary = RunSummary("ses_1", "/repository")
    for each in (helper(0.5), helper(None), ENDED):
        summary.take(each)
    assert summary.lines("")[-1].text.endswith(", unpriced")
