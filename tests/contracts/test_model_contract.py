"""The promises of a `Model`: every provider over its own wire protocol, the scripted model, and a recording.

The servers are real sockets of this machine that speak as the providers do; see `model_reply_formats`.
"""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from hutch.domain.errors import Denied, HutchError, Unavailable
from hutch.llm.interface import (
    Again,
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
    Finish,
    FinishReason,
    Model,
    Text,
    Usage,
)
from hutch.llm.reply_builder import Reply, ReplyBuilder
from hutch.llm.reply_limits import MAX_REPLY_CHARS
from tests.contracts.model_reply_formats import SPEAKERS, Calls, Refuse, Say, Speaker
from tests.deadline import DEADLINE_S
from tests.llm.provider_formats import GO

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("speaker", SPEAKERS, ids=str)]

WORDS = ("I will look at the tests, ", "and then at the code ", "which they are about.")
ARGUMENTS = ('{"command": "ls -la src', "/hutch/jail/launch && ", 'cat README.md"}')
BASH_CALL: Calls = (("call_a", "bash", ARGUMENTS),)
BOTH: Calls = (*BASH_CALL, ("call_b", "read_file", ('{"path": ', '"a.py"}')))


async def ask(model: Model) -> list[Delta]:
    async with asyncio.timeout(DEADLINE_S), aclosing(model.stream(GO)) as stream:
        return [piece async for piece in stream]


def gathered(pieces: list[Delta]) -> Reply:
    gathering = ReplyBuilder()
    for piece in pieces:
        gathering.add(piece)
    return gathering.reply()


async def test_text_comes_in_pieces_and_the_finish_is_last(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Say(WORDS)], tmp_path) as opened:
        pieces = await ask(opened.model)
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    assert "".join(texts) == "".join(WORDS) and len(texts) >= len(WORDS)
    assert [place for place, piece in enumerate(pieces) if isinstance(piece, Finish)] == [len(pieces) - 1]


async def test_the_first_words_are_passed_on_before_the_last_are_there(
    speaker: Speaker, tmp_path: Path
) -> None:
    async with speaker.open([Say(WORDS, broken="stall")], tmp_path) as opened:
        async with asyncio.timeout(DEADLINE_S), aclosing(opened.model.stream(GO)) as stream:
            async for piece in stream:
                if isinstance(piece, Text):
                    break
        assert isinstance(piece, Text) and "".join(WORDS).startswith(piece.text)


async def test_a_call_is_begun_filled_and_ended(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Say(calls=BASH_CALL, finish="calls")], tmp_path) as opened:
        pieces = await ask(opened.model)
    of_calls = [piece for piece in pieces if isinstance(piece, CallStarted | CallArguments | CallEnded)]
    kinds = [type(piece) for piece in of_calls]
    assert (kinds[0], kinds[-1]) == (CallStarted, CallEnded) and {*kinds[1:-1]} == {CallArguments}
    assert {piece.id for piece in of_calls} == {"call_a"}
    if speaker.name != "gemini":  # its arguments come whole
        assert kinds.count(CallArguments) >= len(ARGUMENTS)
    reply = gathered(pieces)
    assert (reply.calls, reply.finish) == ((Call("call_a", "bash", "".join(ARGUMENTS)),), "calls")


async def test_several_calls_keep_their_order_and_their_arguments(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Say(WORDS, BOTH, finish="calls")], tmp_path) as opened:
        reply = gathered(await ask(opened.model))
    assert reply.text == "".join(WORDS)
    assert reply.calls == tuple(Call(id_, tool, "".join(parts)) for id_, tool, parts in BOTH)


async def test_usage_counts_what_was_cached_as_a_part_of_what_went_in(
    speaker: Speaker, tmp_path: Path
) -> None:
    usage = Usage(input=1200, cached=1000, output=34)
    async with speaker.open([Say(WORDS, usage=usage)], tmp_path) as opened:
        pieces = await ask(opened.model)
    assert sum((piece for piece in pieces if isinstance(piece, Usage)), Usage()) == usage


@pytest.mark.parametrize("reason", ["stop", "length", "refused"])
async def test_the_reason_of_the_end_is_reported(
    speaker: Speaker, reason: FinishReason, tmp_path: Path
) -> None:
    async with speaker.open([Say(WORDS, finish=reason)], tmp_path) as opened:
        pieces = await ask(opened.model)
    assert isinstance(pieces[-1], Finish) and pieces[-1].reason == reason


async def test_closing_the_stream_stops_the_wire(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Say(WORDS, broken="stall"), Say(("Again.",))], tmp_path) as opened:
        async with asyncio.timeout(DEADLINE_S):
            stream = opened.model.stream(GO)
            while not isinstance(await anext(stream), Text):
                pass
            await stream.aclose()
            if opened.wire:
                await opened.wire.gone.wait()
        assert gathered(await ask(opened.model)).text == "Again."  # it can be asked once more


async def test_a_caller_that_is_cancelled_stops_the_wire(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Say(WORDS, broken="stall"), Say(("Again.",))], tmp_path) as opened:
        asking = asyncio.create_task(ask(opened.model))
        async with asyncio.timeout(DEADLINE_S):
            if opened.wire:
                await opened.wire.sent.wait()
            else:
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            if opened.wire:
                await opened.wire.gone.wait()
        assert gathered(await ask(opened.model)).text == "Again."


async def test_a_malformed_stream_is_asked_for_again_and_void(speaker: Speaker, tmp_path: Path) -> None:
    good = Say(("All of it.",), BASH_CALL, finish="calls")
    async with speaker.open([Say(WORDS, BOTH, broken="malformed"), good], tmp_path) as opened:
        pieces = await ask(opened.model)
    reply = gathered(pieces)
    assert [piece.attempt for piece in pieces if isinstance(piece, Again)] == [2]
    assert (reply.text, [call.id for call in reply.calls], reply.attempts) == ("All of it.", ["call_a"], 2)


async def test_a_rate_limit_is_waited_out_for_as_long_as_it_says(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Refuse(429, retry_after_s=0.02), Say(WORDS)], tmp_path) as opened:
        pieces = await ask(opened.model)
    assert isinstance(pieces[0], Again) and (pieces[0].attempt, pieces[0].wait_s) == (2, 0.02)
    assert gathered(pieces).text == "".join(WORDS)


async def test_a_wait_that_is_too_long_is_an_error(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Refuse(429, retry_after_s=900.0), Say(WORDS)], tmp_path) as opened:
        with pytest.raises(Unavailable, match="It asks to wait 900 s"):
            await ask(opened.model)


async def test_a_rejected_key_is_an_error_at_once(speaker: Speaker, tmp_path: Path) -> None:
    async with speaker.open([Refuse(401), Say(WORDS)], tmp_path) as opened:
        with pytest.raises(Denied if speaker.dialect else HutchError):  # a script has no key
            await ask(opened.model)
        if opened.wire:
            assert len(opened.wire.bodies) == 1


async def test_a_reply_without_end_is_an_error(speaker: Speaker, tmp_path: Path) -> None:
    if speaker.dialect is None:
        return  # a cassette is a file of this machine, and bounded as that
    mebibyte = "y" * 2**20
    endless = Say((mebibyte,) * (MAX_REPLY_CHARS // 2**20 + 1))
    async with speaker.open([endless], tmp_path) as opened:
        with pytest.raises(Unavailable, match="a reply without end"):
            await ask(opened.model)
