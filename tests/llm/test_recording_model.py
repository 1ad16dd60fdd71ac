"""Recorded replies can be played without the model."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.llm.interface import Call, FromTool, Usage
from hutch.llm.recording_model import RecordingModel, as_scripted
from hutch.llm.reply_builder import Reply
from hutch.llm.scripted_model import ScriptedModel
from tests.llm.provider_formats import DIALECTS, Dialect, as_message
from tests.llm.provider_server import Act, playing
from tests.llm.scripted_models import pieces, reply, scripted

pytestmark = pytest.mark.anyio


def test_deeply_nested_arguments_are_recorded_as_text() -> None:
    deep = "[" * 100_000
    recorded = as_scripted(Reply(calls=(Call("a", "bash", deep),)))
    assert recorded["calls"] == [{"id": "a", "tool": "bash", "args": deep}]


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
    second = await reply(model, as_message(first))
    played = ScriptedModel.load(tape)
    assert await reply(played) == Reply(
        "key [redacted]", "hm", first.calls, Usage(5, 2, 0, 7), "calls", {"scripted": {"reply": 0}}
    )
    assert (await reply(played, as_message(first))).text == second.text == "done"
    assert os.listdir(tmp_path) == ["tape.json"]  # noqa: PTH208 (and nothing half written)


async def test_a_recording_continues_with_its_session_and_restarts_with_another(tmp_path: Path) -> None:
    tape = tmp_path / "tape.json"
    script = "- text: one\n- text: two\n"
    first = await reply(RecordingModel(scripted(script), tape, clean=str))
    await reply(RecordingModel(scripted(script), tape, clean=str), as_message(first))
    played = ScriptedModel.load(tape)
    assert [(await reply(played)).text, (await reply(played, as_message(first))).text] == ["one", "two"]
    await reply(RecordingModel(scripted("- text: other"), tape, clean=str))
    assert (await reply(ScriptedModel.load(tape))).text == "other"


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
async def test_a_real_session_is_played_back_without_its_provider(dialect: Dialect, tmp_path: Path) -> None:
    tape = tmp_path / "tape.json"
    acts = [
        Act(dialect.reply("Look.", [("a", "bash", '{"command": "ls"}')])),
        Act(dialect.reply("Done.", ())),
    ]
    async with playing(*acts) as wire:
        model = RecordingModel(dialect.open(wire), tape, clean=str)
        first = await reply(model)
        again = RecordingModel(dialect.open(wire), tape, clean=str)
        second = await reply(again, as_message(first), FromTool("a", "bash", "x"))
    played = ScriptedModel.load(tape)
    once = await reply(played)
    assert (once.text, once.calls, once.usage, once.finish) == (
        first.text,
        first.calls,
        first.usage,
        first.finish,
    )
    assert (await reply(played, as_message(once), FromTool("a", "bash", "x"))).text == second.text == "Done."


async def test_a_recording_that_cannot_be_written(tmp_path: Path) -> None:
    model = RecordingModel(scripted("- text: one"), tmp_path / "none" / "tape.json", clean=str)
    with pytest.raises(Unavailable, match=r"tape\.json cannot be written: No such file or directory"):
        await pieces(model)
