"""Common behaviour of providers, above all: cancelling closes the connection."""

import asyncio
from contextlib import aclosing

import pytest

from hutch.llm.interface import Text
from hutch.llm.provider_account import Account
from tests.deadline import DEADLINE_S
from tests.llm.provider_formats import DIALECTS, GO, Dialect, pieces, reply
from tests.llm.provider_server import Act, Wire, playing

every = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
LS = '{"command": "ls"}'


async def hung_up(wire: Wire) -> None:
    async with asyncio.timeout(DEADLINE_S):  # not a measure: only so that a failure ends
        await wire.gone.wait()


@pytest.mark.anyio
@every
@pytest.mark.parametrize("count", [0, 2, 5])
async def test_a_cancelled_reply_closes_the_connection(dialect: Dialect, count: int) -> None:
    chunks = dialect.reply("Look.", [("call_a", "bash", LS)])[:count]
    async with playing(Act(chunks, ending="stall")) as wire:
        task = asyncio.create_task(pieces(dialect.open(wire)))
        await wire.sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await hung_up(wire)


@pytest.mark.anyio
@every
async def test_a_request_without_an_answer_is_cancelled_too(dialect: Dialect) -> None:
    async with playing(Act(ending="silent")) as wire:
        task = asyncio.create_task(pieces(dialect.open(wire)))
        await wire.sent.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await hung_up(wire)


@pytest.mark.anyio
@every
async def test_closing_a_stream_closes_the_connection_and_the_model_stays_usable(dialect: Dialect) -> None:
    whole = dialect.reply("Look.", ())
    async with playing(Act(whole[: -dialect.before_end], ending="stall"), Act(whole)) as wire:
        model = dialect.open(wire)
        async with aclosing(model.stream(GO)) as stream:
            async for piece in stream:
                if piece == Text("Look."):
                    break
        await hung_up(wire)
        assert (await reply(model)).text == "Look."


@pytest.mark.anyio
@every
async def test_concurrent_streams_of_one_model(dialect: Dialect) -> None:
    """Closing one stream does not affect the other."""
    whole = dialect.reply("Look.", [("call_a", "bash", LS)])
    async with playing(Act(whole[:3], ending="stall"), Act(whole)) as wire:
        model = dialect.open(wire)
        async with aclosing(model.stream(GO)) as first, aclosing(model.stream(GO)) as second:
            await anext(first)
            began = await anext(second)
            await first.aclose()
            rest = [piece async for piece in second]
        await model.close()
    assert len([began, *rest]) == len(await pieces_of(dialect, whole))


async def pieces_of(dialect: Dialect, chunks: list[bytes]) -> list[object]:
    async with playing(Act(chunks)) as wire:
        return list(await pieces(dialect.open(wire)))


def test_a_key_is_removed_from_the_servers_text() -> None:
    assert Account("openai", "x", "key-1234567890", "").without_key("bad key-1234567890!") == "bad [the key]!"
    assert Account("ollama", "x", "none", "").without_key("none of these") == "none of these"
    assert "1234567890" not in repr(Account("openai", "x", "key-1234567890", ""))
