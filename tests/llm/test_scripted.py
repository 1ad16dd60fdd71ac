"""A model that needs no network: cassettes, conditions, faults, patience, recording."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound, Unavailable
from hutch.llm.cassette import load_cassette, parse_cassette
from hutch.llm.recording import RecordingModel
from hutch.llm.reply import Gathering, Reply
from hutch.llm.retry import Patience, PatientModel
from hutch.llm.scripted import ScriptedModel
from hutch.llm.seam import (
    Again,
    Call,
    Delta,
    FromModel,
    FromTool,
    FromUser,
    Message,
    Model,
    Request,
    Text,
    Usage,
)

pytestmark = pytest.mark.anyio

QUICK = Patience(attempts=3, first_wait_s=0.001, longest_wait_s=1.0, silence_s=0.05)


def scripted(text: str) -> ScriptedModel:
    return ScriptedModel("scripted:test", parse_cassette(text, "test"))


async def pieces(model: Model, *messages: Message) -> list[Delta]:
    async with aclosing(model.stream(Request("", (FromUser("go"), *messages)))) as stream:
        return [piece async for piece in stream]


async def reply(model: Model, *messages: Message) -> Reply:
    gathering = Gathering()
    for piece in await pieces(model, *messages):
        gathering.add(piece)
    return gathering.reply()


def said(reply: Reply) -> FromModel:
    return FromModel(reply.text, reply.calls, reply.opaque)


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


async def test_long_replies_come_in_pieces() -> None:
    model = scripted(f'{{"replies": [{{"text": "{"word " * 100}"}}]}}')
    got = [piece.text for piece in await pieces(model) if isinstance(piece, Text)]
    assert len(got) > 10
    assert "".join(got) == "word " * 100


async def test_replies_are_used_up_in_order_as_the_conversation_tells() -> None:
    model = scripted("replies:\n- text: one\n- text: two\n")
    first = await reply(model)
    second = await reply(model, said(first))
    assert (first.text, second.text) == ("one", "two")
    again = scripted("replies:\n- text: one\n- text: two\n")  # as after a crash
    assert (await reply(again, said(first))).text == "two"
    with pytest.raises(BadRequest, match="no reply for turn 3: all are used up"):
        await reply(model, said(first), said(second))


async def test_a_condition_looks_at_the_last_tool_result() -> None:
    text = """
    replies:
    - when: {tool: run_tests, contains: failed}
      text: mend
    - when: {tool: run_tests, lacks: failed, ok: true}
      text: done
    """
    assert (await reply(scripted(text), FromTool("1", "run_tests", "1 failed"))).text == "mend"
    assert (await reply(scripted(text), FromTool("1", "run_tests", "3 passed"))).text == "done"
    with pytest.raises(BadRequest, match="none of the 2 left fits"):
        await reply(scripted(text), FromTool("1", "bash", "1 failed"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"replies": [{"texts": "x"}]}', r"replies\.0\.texts: Extra inputs"),
        ('{"replies": [{"calls": [{"args": {}}]}]}', r"replies\.0\.calls\.0\.tool: Field required"),
        ("replies: [", "neither JSON nor YAML"),
        ('{"replies": 3}', "replies: "),
        ("- 1", r"replies\.0"),
    ],
)
def test_a_mistake_in_a_cassette_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_cassette(text, "test")


def test_a_cassette_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no cassette at"):
        load_cassette(tmp_path / "none.json")


async def test_what_may_work_the_next_time_is_tried_again() -> None:
    model = PatientModel(
        scripted(
            "- fault: {status: 429, retry_after_s: 0.01}\n- fault: {kind: cut}\n  text: half a\n- text: whole"
        ),
        QUICK,
    )
    got = await pieces(model)
    assert [piece.attempt for piece in got if isinstance(piece, Again)] == [2, 3]
    assert next(piece.wait_s for piece in got if isinstance(piece, Again)) == 0.01
    gathering = Gathering()
    for piece in got:
        gathering.add(piece)
    assert (gathering.reply().text, gathering.reply().attempts) == ("whole", 3)


async def test_patience_ends_with_what_to_do() -> None:
    with pytest.raises(Unavailable, match=r"the cassette says 529.*Tried 3 times.*--model"):
        await pieces(PatientModel(scripted("- fault: {status: 529}\n  times: 9"), QUICK))
    with pytest.raises(Unavailable, match=r"asks to wait 900 s.*Tried once"):
        await pieces(PatientModel(scripted("- fault: {status: 429, retry_after_s: 900}"), QUICK))


async def test_a_refusal_is_not_tried_again() -> None:
    with pytest.raises(BadRequest, match="status 400"):
        await pieces(PatientModel(scripted("- fault: {status: 400}\n- text: never"), QUICK))


async def test_silence_counts_as_broken() -> None:
    got = await pieces(PatientModel(scripted("- fault: {kind: stall}\n  text: half\n- text: whole"), QUICK))
    assert [piece.reason for piece in got if isinstance(piece, Again)] == ["nothing came for 0.05 s"]


async def test_a_cancelled_reply_stops() -> None:
    task = asyncio.create_task(pieces(PatientModel(scripted("- text: late\n  delay_s: 600"))))
    await asyncio.sleep(0.01)
    task.cancel()
    async with asyncio.timeout(60):  # not when the reply would have come
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_recording_plays_back_the_same(tmp_path: Path) -> None:
    text = """
    - thinking: hm
      text: key sk-secret
      calls: [{tool: bash, args: {command: ls}}, {tool: edit_file, args: "not json"}]
      usage: {input: 5, cached: 2, output: 7}
    - text: done
    """
    tape = tmp_path / "tape.json"
    model = RecordingModel(scripted(text), tape, clean=lambda text: text.replace("sk-secret", "[redacted]"))
    first = await reply(model)
    second = await reply(model, said(first))
    played = ScriptedModel.load(tape)
    assert await reply(played) == Reply(
        "key [redacted]", "hm", first.calls, Usage(5, 2, 0, 7), "calls", {"scripted": {"reply": 0}}
    )
    assert (await reply(played, said(first))).text == second.text == "done"
    assert os.listdir(tmp_path) == ["tape.json"]  # noqa: PTH208 (and nothing half written)
