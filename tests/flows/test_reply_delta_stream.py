"""The parts of a reply that followers get while a model writes it."""

import asyncio

import pytest

from hutch.domain.redaction import Redactor
from hutch.flows.run_execution.reply_delta_stream import DeltaStream
from hutch.llm.interface import Again, CallArguments, CallStarted, Delta, Finish, Text, Thinking
from hutch.sessions import interface as sessions

pytestmark = pytest.mark.anyio
SECRET = "a-secret-value-of-the-test"


async def sent(*rounds: tuple[Delta, ...]) -> list[tuple[str, str, str]]:
    """The kind, text and call of each part that was sent; the chunks of a round are read together."""
    parts: list[sessions.Delta] = []
    stream = DeltaStream("run_1", Redactor([SECRET]), parts.append, lambda: None)
    for chunks in rounds:
        for chunk in chunks:
            stream.add(chunk)
        await asyncio.sleep(0)
    return [(part.kind, part.text, part.call_id) for part in parts]


async def test_chunks_that_were_read_together_are_sent_as_one_part() -> None:
    assert await sent((Text("one "), Text("two ")), (Text("three "),)) == [
        ("text", "one two ", ""),
        ("text", "three ", ""),
    ]


async def test_parts_keep_the_order_of_the_reply() -> None:
    reply = (
        Thinking("hm "),
        Thinking("so "),
        Text("I look "),
        CallStarted("c1", "bash"),
        CallArguments("c1", "{ "),
        CallArguments("c2", "[ "),
        CallArguments("c2", "] "),
        Finish("calls"),
    )
    assert await sent(reply) == [
        ("thinking", "hm so ", ""),
        ("text", "I look ", ""),
        ("call", "", "c1"),
        ("arguments", "{ ", "c1"),
        ("arguments", "[ ] ", "c2"),
    ]


async def test_text_before_a_retry_is_sent_before_it() -> None:
    again = Again(2, 0.1, "it broke off", "retrying")
    assert await sent((Text("half "), again, Text("whole "), Finish("stop"))) == [
        ("text", "half ", ""),
        ("again", "retrying", ""),
        ("text", "whole ", ""),
    ]


async def test_a_secret_that_is_split_over_two_rounds_is_not_sent() -> None:
    half, rest = SECRET[:9], SECRET[9:]
    parts = await sent((Text("it is "), Text(half)), (Text(rest), Text(" there ")), (Finish("stop"),))
    text = "".join(text for _, text, _ in parts)
    assert half not in text and rest not in text and text.endswith(" there ")
