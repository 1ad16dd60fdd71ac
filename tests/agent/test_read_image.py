"""Images that the agent reads: for models that see, bounded, and never decoded."""

import base64
import json
import struct
import zlib
from pathlib import Path

import pytest

from hutch.agent.conversation import GONE, MAX_IMAGE_CHARS, Conversation
from hutch.agent.tools.read_file import MAX_IMAGE_BYTES
from hutch.domain.events import CallMade, ImageLoaded, ModelReplied, RunStarted, ToolReturned
from hutch.domain.redaction import Redactor
from hutch.flows.run_execution.agent_work_and_tests import begin
from hutch.llm.interface import FromTool, Image
from tests.agent.run_setups import SetupOptions, call, entries, open_setup, open_tool_env, replies
from tests.domain.test_image_header import png

pytestmark = pytest.mark.anyio

SMALL = png(2, 3, b"pixels")
BOMB = png(7999, 4999, zlib.compress(b"\0" * 50_000_000))


async def test_an_image_is_returned_as_it_is_in_the_file(tmp_path: Path) -> None:
    async with open_tool_env(tmp_path, {"a.png": SMALL}) as env:
        result = await env.use("read_file", path="a.png")
    assert result.text == f"'a.png' is an image: image/png, 2x3, {len(SMALL)} bytes."
    assert result.image is not None and base64.b64decode(result.image.data) == SMALL
    assert (result.data["media_type"], result.data["sha256"]) == ("image/png", result.image.sha256)


async def test_hostile_images_are_not_shown_and_nothing_is_decoded(tmp_path: Path) -> None:
    key = "sk-ant-api03-9d8f7a6b5c4e3d2f1a0b9c8d7e6f5a4b"
    files = {
        "huge.png": png(10, 10, b"\0" * MAX_IMAGE_BYTES),
        "wide.png": png(60_000, 60_000),
        "fake.png": b"\0\1\2 not an image",
        "text.png": b"only text\n",
        "secret.png": png(2, 2, key.encode()),
        "bomb.png": BOMB,
        "cut.jpg": b"\xff\xd8\xff\xe0\xff\xff\0",
    }
    async with open_tool_env(tmp_path, files) as env:
        env.redact(Redactor([key]))
        results = {name: await env.use("read_file", path=name) for name in files}
    shown = {name for name, result in results.items() if result.image is not None}
    assert shown == {"bomb.png"}  # a few kilobytes, within the sizes that providers accept
    assert "too large to be shown" in results["huge.png"].text and "too large" in results["wide.png"].text
    assert "is no PNG, JPEG, GIF or WebP" in results["fake.png"].text
    assert results["text.png"].text.endswith("only text")
    assert "holds a secret" in results["secret.png"].text and "sk-ant" not in str(results["secret.png"])


async def test_the_log_has_an_image_once_and_the_model_sees_it_with_its_result(tmp_path: Path) -> None:
    calls = (call("read_file", path="a.png"), call("bash", command="true"), call("finish", title="x"))
    said = replies(*({"calls": [each]} for each in calls))
    async with open_setup(tmp_path, SetupOptions({"a.png": SMALL}, said)) as setup:
        await begin(setup, "run_1", "Look.")
        log = await entries(setup.recorder)
    images = [entry.event for entry in log if isinstance(entry.event, ImageLoaded)]
    assert [(each.path, each.media_type, each.size) for each in images] == [
        ("a.png", "image/png", len(SMALL))
    ]
    returned = [entry.event for entry in log if isinstance(entry.event, ToolReturned)]
    assert images[0].data not in returned[0].text
    messages = Conversation.of(log).messages
    seen = [each.image for each in messages if isinstance(each, FromTool)]
    assert seen[0] == Image("image/png", images[0].data) and seen[1:] == [None] * (len(seen) - 1)


async def test_old_images_are_dropped_when_there_are_too_many() -> None:
    conversation, data = Conversation(), "A" * (MAX_IMAGE_CHARS // 4)
    conversation.apply(RunStarted(run_id="r", prompt="go", persona="engineer", model="m"), 1)
    for number in range(6):
        id_ = f"c{number}"
        made = CallMade(id=id_, tool="read_file", arguments="{}")
        conversation.apply(ModelReplied(run_id="r", turn=number, text="", calls=(made,), finish="calls"), 2)
        image = {
            "path": "a.png",
            "media_type": "image/png",
            "size": 1,
            "width": 1,
            "height": 1,
            "sha256": "0",
        }
        conversation.apply(
            ImageLoaded.model_validate({"run_id": "r", "call_id": id_, **image, "data": data}), 3
        )
        conversation.apply(ToolReturned(run_id="r", call_id=id_, tool="read_file", ok=True, text="seen"), 4)
    results = [each for each in conversation.messages if isinstance(each, FromTool)]
    assert [each.image is not None for each in results] == [False, False, False, True, True, True]
    assert [GONE in each.text for each in results] == [True, True, True, False, False, False]
    assert json.dumps([each.text for each in results]).count(GONE) == 3


async def test_the_bomb_is_one() -> None:
    assert len(BOMB) < MAX_IMAGE_BYTES and struct.unpack(">II", BOMB[16:24]) == (7999, 4999)
