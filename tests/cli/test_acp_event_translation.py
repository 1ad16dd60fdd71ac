"""The updates of an editor for the events of a session."""

from hutch.cli.acp.event_translation import EventTranslation


def test_a_run_whose_tests_prove_nothing_says_why() -> None:
    reason = "The tests pass, but files change while they run (a.log): the final files are untested."
    event = {"type": "run.ended", "outcome": "tests_failing", "reason": reason}
    (update,) = EventTranslation("/home/me/project").event(event)
    assert update.content.text == f"\n\nTests failing: {reason}\n"
