"""A model that needs no network."""

import asyncio

import pytest

from hutch.domain.errors import BadRequest
from hutch.llm.interface import Call, FromModel, FromTool, FromUser, Request, Text
from hutch.llm.retry import RetryingModel
from tests.deadline import DEADLINE_S
from tests.llm import provider_formats
from tests.llm.provider_formats import as_message
from tests.llm.scripted_models import pieces, reply, scripted

pytestmark = pytest.mark.anyio


async def test_the_smallest_cassette() -> None:
    model = scripted(
        '{"replies": [{"text": "Hello", "calls": [{"tool": "bash", "args": {"command": "ls"}}]}]}'
    )
    got = await reply(model)
    assert (got.text, got.calls, got.finish) == (
        "Hello",
        (Call("call_0_0", "bash", '{"command": "ls"}'),),
        "calls",
    )


async def test_long_replies_are_streamed_in_parts() -> None:
    model = scripted(f'{{"replies": [{{"text": "{"word " * 100}"}}]}}')
    got = [piece.text for piece in await pieces(model) if isinstance(piece, Text)]
    assert len(got) > 10
    assert "".join(got) == "word " * 100


async def test_replies_are_used_in_order_by_the_conversation() -> None:
    model = scripted("replies:\n- text: one\n- text: two\n")
    first = await reply(model)
    second = await reply(model, as_message(first))
    assert (first.text, second.text) == ("one", "two")
    again = scripted("replies:\n- text: one\n- text: two\n")  # as after a crash
    assert (await reply(again, as_message(first))).text == "two"
    with pytest.raises(BadRequest, match="no reply for turn 3: all are used up"):
        await reply(model, as_message(first), as_message(second))


async def test_a_condition_checks_the_last_tool_result() -> None:
    text = """
    replies:
    - when: {tool: run_tests, contains: failed}
      text: mend
    - when: {tool: run_tests, lacks: failed, ok: true}
      text: done
    """
    assert (await reply(scripted(text), FromTool("1", "run_tests", "1 failed"))).text == "mend"
    assert (await reply(scripted(text), FromTool("1", "run_tests", "3 passed"))).text == "done"
    with pytest.raises(BadRequest, match="none of the 2 left matches"):
        await reply(scripted(text), FromTool("1", "bash", "1 failed"))


async def test_a_summary_uses_no_reply_and_compacted_messages_still_count() -> None:
    model = scripted("[{text: one}, {when: {contains: good}, text: two}, {text: three}]")
    first = await reply(model)
    with pytest.raises(BadRequest, match="writes no summaries"):
        await provider_formats.reply(model, Request("", (FromUser("go"), as_message(first)), summary=True))
    compacted = (FromModel("", (), first.opaque), FromTool("1", "bash", "good"))
    short = Request("", (FromUser("in short"),), compacted=compacted)
    assert (await provider_formats.reply(model, short)).text == "two"


async def test_a_cancelled_reply_stops() -> None:
    task = asyncio.create_task(pieces(RetryingModel(scripted("- text: late\n  delay_s: 600"))))
    await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(DEADLINE_S):  # not when the reply would have come
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_ids_of_a_repeated_reply_differ() -> None:
    model = scripted("- calls: [{tool: bash}]\n  times: 2")
    first = await reply(model)
    second = await reply(model, as_message(first), FromTool("call_0_0", "bash", ""))
    assert [first.calls[0].id, second.calls[0].id] == ["call_0_0", "call_0_0_1"]
