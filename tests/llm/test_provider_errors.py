"""Errors of providers, the same tests for each, over a socket."""

import asyncio
import socket
from contextlib import aclosing
from email.utils import formatdate
from time import time

import pytest

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.llm.interface import Again, Call, Finish, FromUser, Request, Text, Usage
from hutch.llm.retry import RetryPolicy
from tests.deadline import DEADLINE_S
from tests.llm.provider_formats import ANTHROPIC, DIALECTS, GO, KEY, Dialect, pieces, reply
from tests.llm.provider_server import Act, answer, event, playing

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("dialect", DIALECTS, ids=str)]
some = pytest.mark.parametrize
LS = '{"command": "ls"}'


async def test_server_errors_are_retried(dialect: Dialect) -> None:
    for status in (408, 409, 429, 500, 502, 503, 529):
        trouble = answer(status, dialect.error(status, "api_error", "Try later"))
        async with playing(trouble, Act(dialect.reply("Done.", ()))) as wire:
            got = await pieces(dialect.open(wire))
        [again] = [piece for piece in got if isinstance(piece, Again)]
        assert (again.attempt, again.reason) == (2, "Try later."), status
        assert [piece for piece in got if isinstance(piece, Text)] == [Text("Done.")]
        assert wire.bodies[0] == wire.bodies[1]


@some(
    ("headers", "least", "most"),
    [
        ({"Retry_After": "7"}, 7, 7),
        ({"Retry_After": "0.5"}, 0.5, 0.5),
        ({"retry_after_ms": "1500", "Retry_After": "9"}, 1.5, 1.5),
        ({"Retry_After": "soon"}, 0, 0.001),
        ({"Retry_After": "date"}, 80_000, 86_400),
    ],
)
async def test_a_server_says_when_to_retry(
    dialect: Dialect, headers: dict[str, str], least: float, most: float
) -> None:
    if headers.get("Retry_After") == "date":
        headers = {"Retry_After": formatdate(time() + 86_400, usegmt=True)}
    busy = answer(429, dialect.error(429, "rate_limit_error", "Slow down"), **headers)
    async with playing(busy) as wire:
        model = dialect.open(wire, retry_policy=RetryPolicy(first_wait_s=0.001, max_wait_s=1e6))
        async with aclosing(model.stream(GO)) as stream:
            again = await anext(stream)
        await model.close()
    assert isinstance(again, Again)
    assert least <= again.wait_s <= most


async def test_a_retry_delay_that_is_too_long_is_an_error(dialect: Dialect) -> None:
    busy = answer(429, dialect.error(429, "rate_limit_error", "Slow down"), Retry_After="900")
    async with playing(busy) as wire:
        with pytest.raises(Unavailable) as raised:
            await pieces(dialect.open(wire))
    assert str(raised.value) == (
        f"{dialect.provider}:{dialect.model} accepts no more requests for now: Slow down. "
        "It asks to wait 900 s. Tried once. "
        "Wait, raise the quota with the provider, or choose another model."
    )


async def test_retries_end(dialect: Dialect) -> None:
    trouble = answer(503, b"<html><head><title>503 Service  Unavailable</title></head></html>")
    async with playing(trouble, trouble, trouble) as wire:
        with pytest.raises(Unavailable, match=r"did not answer: .*503.*Tried 3 times"):
            await pieces(dialect.open(wire))
    assert len(wire.requests) == 3


async def test_a_reply_that_is_cut_in_the_middle_of_a_call_is_retried(dialect: Dialect) -> None:
    whole = dialect.reply("Look.", [("call_a", "bash", LS)])
    for ending in ("cut", "whole"):  # dropped, or ended politely and too soon
        half = Act(whole[: -dialect.before_end], ending=ending)
        async with playing(half, Act(whole)) as wire:
            got = await reply(dialect.open(wire))
        assert (got.text, got.calls, got.attempts) == ("Look.", (Call("call_a", "bash", LS),), 2)


async def test_a_stalled_stream_is_retried(dialect: Dialect) -> None:
    impatient = RetryPolicy(attempts=2, first_wait_s=0.001, idle_timeout_s=0.5)
    whole = dialect.reply("Look.", [("call_a", "bash", LS)])
    async with playing(Act(whole[:2], ending="stall"), Act(whole)) as wire:
        got = await reply(dialect.open(wire, retry_policy=impatient))
        async with asyncio.timeout(DEADLINE_S):
            await wire.gone.wait()
    assert (got.text, got.attempts) == ("Look.", 2)


async def test_invalid_json_is_retried(dialect: Dialect) -> None:
    whole = dialect.reply("Look.", ())
    for garbage in ('{"oops', "[1, 2", "nothing", "\x00\x01"):
        bad = event(garbage, "message_start" if dialect is ANTHROPIC else None)
        async with playing(Act([bad, *whole]), Act(whole)) as wire:
            got = await reply(dialect.open(wire))
        assert (got.text, got.attempts) == ("Look.", 2), garbage


@some(
    "strange", ["[]", "3", "null", '"text"', '{"type": "surprise"}', '{"choices": 4}', '{"candidates": [7]}']
)
async def test_unexpected_json_is_ignored_or_retried(dialect: Dialect, strange: str) -> None:
    whole = dialect.reply("Look.", ())
    odd = event(strange, "content_block_delta" if dialect is ANTHROPIC else None)
    async with playing(Act([whole[0], odd, *whole[1:]]), Act(whole)) as wire:
        assert (await reply(dialect.open(wire))).text == "Look."


async def test_calls_with_the_same_id_get_unique_ids(dialect: Dialect) -> None:
    twins = dialect.reply("", [("same", "bash", LS), ("same", "grep", "{}")])
    async with playing(Act(twins)) as wire:
        got = await reply(dialect.open(wire))
    assert got.calls == (Call("same", "bash", LS), Call("same_1", "grep", "{}"))


async def test_an_id_that_could_do_harm_is_replaced(dialect: Dialect) -> None:
    for id_ in ("../../etc", "a b", "x" * 1000, "é"):
        async with playing(Act(dialect.reply("", [(id_, "bash", LS)]))) as wire:
            assert (await reply(dialect.open(wire))).calls == (Call("call_0", "bash", LS),)


async def test_an_empty_reply_is_retried_once_and_then_accepted(dialect: Dialect) -> None:
    empty = Act(dialect.reply("", ()))
    async with playing(empty, empty) as wire:
        got = await pieces(dialect.open(wire))
    assert [piece.reason for piece in got if isinstance(piece, Again)] == ["the reply was empty"]
    assert got[-1] == Finish("stop")
    assert sum((piece for piece in got if isinstance(piece, Usage)), Usage()).input == 20  # both are paid for


async def test_an_empty_response_is_retried(dialect: Dialect) -> None:
    async with playing(Act(), Act(dialect.reply("Look.", ()))) as wire:
        got = await reply(dialect.open(wire))
    assert (got.text, got.attempts) == ("Look.", 2)


async def test_errors_inside_a_stream_are_retried(dialect: Dialect) -> None:
    whole = dialect.reply("Look.", ())
    async with playing(Act([*whole[:2], dialect.overloaded()]), Act(whole)) as wire:
        got = await pieces(dialect.open(wire))
    [again] = [piece for piece in got if isinstance(piece, Again)]
    assert "Overloaded" in again.reason
    assert got[-1] == Finish("stop")


async def refusal(dialect: Dialect, *acts: Act, lists: dict[str, object] | None = None) -> HutchError:
    """The error when a retry is useless."""
    async with playing(*acts, lists=lists) as wire:
        with pytest.raises(HutchError) as raised:
            await pieces(dialect.open(wire))
    assert len(wire.bodies) == 1
    return raised.value


async def test_a_key_that_is_not_accepted(dialect: Dialect) -> None:
    error = await refusal(dialect, answer(401, dialect.error(401, "authentication_error", f"bad key {KEY}")))
    assert isinstance(error, Denied)
    name = f"{dialect.provider}_api_key"
    assert str(error).startswith(f"{dialect.provider} does not accept the key: bad key [the key]. ")
    assert f"`hutch config set-secret {name}`, or in the environment as {name.upper()}" in str(error)


async def test_a_key_without_the_right(dialect: Dialect) -> None:
    error = await refusal(dialect, answer(403, dialect.error(403, "permission_error", "Not in your country")))
    assert isinstance(error, Denied)
    assert "Not in your country. Check the permissions of the key." in str(error)


@some(
    ("status", "kind", "message"),
    [
        (402, "billing_error", "Pay first"),
        (429, "insufficient_quota", "You exceeded your current quota, please check your plan."),
        (400, "invalid_request_error", "Your credit balance is too low to access the API."),
    ],
)
async def test_an_account_without_credit(dialect: Dialect, status: int, kind: str, message: str) -> None:
    error = await refusal(dialect, answer(status, dialect.error(status, kind, message)))
    assert isinstance(error, LimitReached)
    assert error.limit == f"{dialect.provider} quota"
    assert "no credit left" in str(error)


@some(
    ("status", "kind", "message"),
    [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "context_length_exceeded", "Your input exceeds the context window of this model."),
        (400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed."),
        (400, "exceed_context_size_error", "the request exceeds the available context size"),
        (413, "request_too_large", "Request exceeds the maximum size"),
    ],
)
async def test_a_conversation_that_is_too_long(
    dialect: Dialect, status: int, kind: str, message: str
) -> None:
    error = await refusal(dialect, answer(status, dialect.error(status, kind, message)))
    assert isinstance(error, LimitReached)
    assert (error.limit, "too long for" in str(error)) == ("context", True)


async def test_another_bad_request(dialect: Dialect) -> None:
    error = await refusal(dialect, answer(400, dialect.error(400, "invalid_request_error", "tools.0: wrong")))
    assert (type(error), str(error)) == (
        BadRequest,
        f"{dialect.provider}:{dialect.model} refused the request: tools.0: wrong.",
    )


async def test_an_unknown_model_brings_near_names_from_the_provider(dialect: Dialect) -> None:
    unknown = answer(404, dialect.error(404, "not_found_error", "no such model"))
    near = f"{dialect.model}-2"
    error = await refusal(dialect, unknown, lists=dialect.lists([near, "something-else"]))
    assert isinstance(error, NotFound)
    assert str(error).startswith(f"{dialect.provider} has no model '{dialect.model}': no such model. ")
    assert near in str(error)
    assert "something-else" not in str(error)


async def test_lone_surrogates_do_not_get_out(dialect: Dialect) -> None:
    """JSON can name half of a pair; nothing could write that down."""
    chunks = [chunk.replace(b"HALF", b"\\ud83d") for chunk in dialect.reply("a HALF b", ())]
    async with playing(Act(chunks)) as wire:
        assert (await reply(dialect.open(wire))).text == "a ? b"
    async with playing() as wire:
        with pytest.raises(BadRequest, match="characters that cannot be sent"):
            await pieces(dialect.open(wire), Request("", (FromUser("\ud83d"),)))


async def test_a_server_that_is_not_there(dialect: Dialect) -> None:
    with socket.socket() as held:  # bound and not listening: nobody else can take the port
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(Unavailable) as raised:
            await pieces(dialect.open(url=url))
    assert str(raised.value).startswith(f"Nothing listens at {url}")
    assert "Is the server running?" in str(raised.value)
    assert f"models.{dialect.provider}_base_url" in str(raised.value)


async def test_a_name_that_nobody_has(dialect: Dialect) -> None:
    once = RetryPolicy(attempts=2, first_wait_s=0.001)
    with pytest.raises(
        Unavailable, match=r"did not answer: the connection broke.*Tried 2 times.*your network"
    ):
        await pieces(dialect.open(url="http://nobody.invalid", retry_policy=once))


async def test_a_server_without_tls(dialect: Dialect) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Unavailable, match=r"No secure connection to https://.*an address with http"):
            await pieces(dialect.open(url=url))


async def test_a_server_without_http(dialect: Dialect) -> None:
    babble = Act([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], ending="raw")
    async with playing(babble, babble, babble) as wire:
        with pytest.raises(Unavailable, match=r"the connection broke .*Tried 3 times"):
            await pieces(dialect.open(wire))
