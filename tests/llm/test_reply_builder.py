"""A reply is assembled from its deltas."""

from hutch.llm.interface import (
    Again,
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
    Finish,
    Text,
    Thinking,
    Usage,
)
from hutch.llm.reply_builder import Reply, ReplyBuilder


def gathered(*pieces: Delta) -> Reply:
    gathering = ReplyBuilder()
    for piece in pieces:
        gathering.add(piece)
    return gathering.reply()


def test_deltas_become_a_reply() -> None:
    got = gathered(
        Usage(input=10, cached=4),
        Thinking("h"),
        Thinking("m"),
        Text("I "),
        Text("look."),
        CallStarted("a", "bash"),
        CallStarted("b", "grep"),
        CallArguments("b", "{}"),
        CallArguments("a", '{"x"'),
        CallArguments("a", ": 1}"),
        CallEnded("a"),
        CallEnded("b"),
        Usage(output=5),
        Finish("calls", {"some": {}}),
    )
    calls = (Call("a", "bash", '{"x": 1}'), Call("b", "grep", "{}"))
    assert got == Reply("I look.", "hm", calls, Usage(10, 4, 0, 5), "calls", {"some": {}})


def test_the_deltas_of_a_failed_attempt_are_dropped_but_its_tokens_count() -> None:
    half = (Usage(input=10), Text("I lo"), CallStarted("a", "bash"), Again(2, 0.5, "it broke"))
    got = gathered(*half, Usage(input=10, output=5), Text("Done."), Finish("stop"))
    assert got == Reply("Done.", "", (), Usage(20, 0, 0, 5), "stop", {}, attempts=2)


def test_a_call_that_never_ended_is_dropped() -> None:
    assert gathered(CallStarted("a", "bash"), CallArguments("a", "{"), Finish("length")).calls == ()
