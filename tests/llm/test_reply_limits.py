"""Servers that send without end."""

import pytest

from hutch.domain.errors import Unavailable
from hutch.llm.interface import CallArguments, CallStarted, Text, Thinking
from hutch.llm.reply_limits import MAX_EVENT_BYTES, MAX_REPLY_CHARS, Bound
from tests.llm.provider_formats import ANTHROPIC, CHAT, DIALECTS, Dialect, chat_call, chat_chunk, pieces
from tests.llm.provider_server import Act, answer, playing

pytestmark = pytest.mark.anyio
MIB = 1024 * 1024


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
async def test_an_endless_line_is_an_error(dialect: Dialect) -> None:
    line = [b"data: {", *[b"x" * MIB] * (MAX_EVENT_BYTES // MIB + 1)]
    async with playing(Act(line, ending="stall")) as wire:
        with pytest.raises(Unavailable, match="a line without end"):
            await pieces(dialect.open(wire))


@pytest.mark.parametrize("dialect", [CHAT, ANTHROPIC], ids=str)
async def test_an_endless_error_is_an_error(dialect: Dialect) -> None:
    async with playing(answer(400, b"x" * (MAX_EVENT_BYTES + 1))) as wire:
        with pytest.raises(Unavailable, match="a line without end"):
            await pieces(dialect.open(wire))


@pytest.mark.parametrize(
    "delta",
    [{"content": "y" * MIB}, {"reasoning": "y" * MIB}, {"tool_calls": [chat_call(0, None, None, "y" * MIB)]}],
    ids=["text", "thoughts", "arguments"],
)
async def test_an_endless_reply_is_an_error(delta: dict[str, object]) -> None:
    begin = chat_chunk({"tool_calls": [chat_call(0, "call_a", "bash", "")]})
    chunks = [begin, *[chat_chunk(delta)] * (MAX_REPLY_CHARS // MIB + 1)]
    async with playing(Act(chunks, ending="stall")) as wire:
        with pytest.raises(Unavailable, match="a reply without end"):
            await pieces(CHAT.open(wire))


def test_text_thoughts_and_calls_count() -> None:
    bound = Bound()
    bound.add(Text("x" * (MAX_REPLY_CHARS // 2)))
    bound.add(Thinking("x" * (MAX_REPLY_CHARS // 2 - 1000)))
    bound.add(CallArguments("a", "{}"))
    with pytest.raises(Unavailable):
        for _ in range(20):
            bound.add(CallStarted("a", "bash"))
